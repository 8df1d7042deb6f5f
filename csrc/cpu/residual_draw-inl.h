// SPDX-License-Identifier: Apache-2.0
// Draws from what is left of one law over a share of another: told from floats where they leave no
// doubt (cpu/excess-inl.h), by integer masses elsewhere (cpu/residual-inl.h).
#pragma once

#include "cpu/excess-inl.h"
#include "cpu/law-inl.h"
#include "cpu/residual-inl.h"

namespace spec_decode_ops {
namespace {

// Of tile t of a target that is a selection: only its entries can have a residual.
template <class Residual>
inline KeptMass kept_of_entries(const Law& p, const Law& q, int t, const Residual& residual) {
  const RowSpace& space = p.row->space();
  KeptMass kept{0, 0};
  for (int e = entry_from(p, t * kTile); e < p.selection.count && space.id[e] / kTile == t; ++e) {
    keep(residual, space.mass[e], mass_of(q, space.id[e]), kept);
  }
  return kept;
}

template <class Residual>
inline KeptMass kept_of_any_tile(const Law& p, const Law& q, int t, const Residual& residual) {
  if (p.summed && p.row->space().tile_sum[t] == 0) return {0, 0};
  if (p.kind == Law::kSelection) return kept_of_entries(p, q, t, residual);
  const bool without_draft = q.kind == Law::kOneToken ? q.token / kTile != t : t >= q.row->tiles();
  if (without_draft) return {p.summed ? p.row->space().tile_sum[t] : mass_of_tile(p, t), 0};
  const bool alike = p.kind == q.kind && !p.infinite && !q.infinite;
  if (!alike || q.kind == Law::kOneToken) {
    uint64_t target[kTile], draft[kTile];
    tile_masses(p, t, target);
    tile_masses(q, t, draft);
    KeptMass kept{0, 0};
    for (int i = 0; i < kTile; ++i) keep(residual, target[i], draft[i], kept);
    return kept;
  }
  float target_buffer[kTile], draft_buffer[kTile];
  const float *x = p.row->tile(t, target_buffer), *z = q.row->tile(t, draft_buffer);
  if (p.kind == Law::kSoftmax) {
    return kept_of_tile(x, SoftmaxWeight{p.scale}, z, SoftmaxWeight{q.scale}, residual);
  }
  if (p.exponent == 0 && q.exponent == 0 && residual.alike()) return kept_of_like_tile(x, z);
  if (p.united && q.united) {
    return kept_of_tile(x, UnitedWeight(p.exponent), z, UnitedWeight(q.exponent), residual);
  }
  return kept_of_tile(x, ProbabilityWeight(p.exponent), z, ProbabilityWeight(q.exponent), residual);
}

// What the residual of p over q keeps of each tile, in work.tile_kept; returns it of the row.
template <class Residual>
inline KeptMass keep_tiles(const Law& p, const Law& q, const Residual& residual, Workspace& work) {
  KeptMass whole{0, 0};
  for (int t = 0; t < p.row->tiles(); ++t) {
    const KeptMass kept = kept_of_any_tile(p, q, t, residual);
    work.tile_kept[t] = kept;
    add_to(whole, kept);
  }
  return whole;
}

// A draw from the residual, of which the tiles and the row keep what is given; from p where it has
// no mass.
template <class Residual>
inline int draw_from_kept(const Law& p, const Law& q, const Residual& residual,
                          const KeptMass& whole, uint64_t fraction, Workspace& work) {
  const auto total = residual.weight(whole);
  if (is_zero(total)) return draw_from_law(p, fraction);
  auto goal = scale(fraction, total);
  // The first weight whose running sum exceeds the goal.
  const auto found = [&](const KeptMass& kept) {
    const auto weight = residual.weight(kept);
    if (less(goal, weight)) return true;
    goal = sub(goal, weight);
    return false;
  };
  int t = 0;
  while (!found(work.tile_kept[t])) ++t;
  uint64_t target[kTile], draft[kTile];
  tile_masses(p, t, target);
  tile_masses(q, t, draft);
  for (int i = 0;; ++i) {
    KeptMass kept{0, 0};
    keep(residual, target[i], draft[i], kept);
    if (found(kept)) return t * kTile + i;
  }
}

// What floats tell draws from: the weights that a softmax law keeps, or the probabilities of a
// tile.
inline const float* tile_weights(const Law& law, int t, float* buffer) {
  if (t >= law.row->tiles()) {
    for (int i = 0; i < kTile; ++i) buffer[i] = 0.0f;
    return buffer;
  }
  if (law.kind == Law::kSoftmax) return law.row->space().weight + int64_t(t) * kTile;
  return law.row->tile(t, buffer);
}

// Whether tile_weights are what the law's masses are rounded from.
inline bool has_weights(const Law& law) {
  if (law.kind == Law::kSoftmax) return law.summed;
  return law.kind == Law::kProbabilities && !law.infinite && law.total > 0;
}

// requires an exponent that an ordinary double has
inline double power_of_two(int exponent) {
  const uint64_t bits = uint64_t(exponent + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}

// The token drawn from max(p - q, 0) where floats tell; -1 elsewhere. The ratio of the laws' totals
// may be off by this part of it.
inline int surely_drawn_from_residual(const Law& p, const Law& q, double off, uint64_t fraction,
                                      Workspace& work) {
  if (p.kind != q.kind || !has_weights(p) || !has_weights(q)) return -1;
  const double ratio = double(q.total) / double(p.total);
  // A mass is its weight to 2^-44, and three roundings of at most 2^-24 follow, of which the last
  // is in the sum; where the ratio is 1 it is the only one.
  const double of_masses = 0x1p-44 * p.row->vocab() * (1.0 + ratio);
  const double rounded = ratio == 1.0 ? 0.0 : 0x1p-22;
  const double doubt = of_masses + (off + rounded) * 0x1p-43 * double(q.total);
  float x_buffer[kTile], z_buffer[kTile];
  const auto with_tile = [&](int t, const auto& use) {
    use(tile_weights(p, t, x_buffer), tile_weights(q, t, z_buffer));
  };
  const auto drawn = [&](const auto& excess, double unit) {
    return surely_drawn(excess, p.row->tiles(), double(fraction) * 0x1p-64, doubt * unit,
                        work.tile_excess, with_tile);
  };
  if (p.kind == Law::kSoftmax) return drawn(ScaledExcess{float(ratio)}, 1.0);
  if (p.exponent == 0 && q.exponent == 0 && ratio == 1.0) return drawn(LikeExcess{}, 1.0);
  const double unit = power_of_two(q.exponent);
  const double scale = ratio * power_of_two(q.exponent - p.exponent);
  const bool ordinary = p.united && q.united && scale > 0x1p-60 && scale < 0x1p60;
  return ordinary ? drawn(ScaledExcess{float(scale)}, unit) : -1;
}

// A draw from max(p - q, 0); from p where that has no mass.
inline int draw_from_residual(const Law& p, const Law& q, uint64_t fraction, Workspace& work) {
  const int token = surely_drawn_from_residual(p, q, 0.0, fraction, work);
  if (token >= 0) return token;
  const TokenResidual residual{p.total, q.total};
  const KeptMass whole = keep_tiles(p, q, residual, work);
  return draw_from_kept(p, q, residual, whole, fraction, work);
}

}  // namespace
}  // namespace spec_decode_ops
