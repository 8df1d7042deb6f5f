// SPDX-License-Identifier: Apache-2.0
// Draws from what is left of one law over a share of another: told from floats where they leave no
// doubt (cpu/excess-inl.h), by integer masses elsewhere (cpu/residual-inl.h).
#pragma once

#include "cpu/law-inl.h"
#include "cpu/residual-inl.h"
#include "cpu/rough-inl.h"

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

// The sum of a law's probabilities. requires finite ones
inline double sum_of_probabilities(const Law& law) {
  const uint64_t unit = uint64_t(law.exponent - kMassBits + 1023) << 52;
  double power;
  std::memcpy(&power, &unit, sizeof power);
  return double(law.total) * power;
}

// The token drawn from max(p - q, 0) where floats tell; -1 elsewhere.
inline int surely_drawn_from_laws(const Law& p, const Law& q, uint64_t fraction, Workspace& work) {
  if (p.kind != q.kind) return -1;
  const int tiles = p.row->tiles();
  // A mass is its weight to 2^-44.
  const double ratio = double(q.total) / double(p.total);
  const double of_masses = 0x1p-44 * p.row->vocab() * (1.0 + ratio);
  if (p.kind == Law::kSoftmax && p.summed && q.summed) {
    const F factor = set1(float(ratio));
    const auto with_excess = [&](int t, auto use) {
      const float* weight = t < q.row->tiles() ? weights_of_tile(q, t) : kNothing;
      return use(scaled_excess(weights_of_tile(p, t), weight, factor));
    };
    // The ratio and what it scales are rounded.
    const double doubt = of_masses + 0x1p-23 * 0x1p-43 * double(q.total);
    return surely_drawn(tiles, with_excess, fraction, doubt, work.tile_excess);
  }
  if (p.kind == Law::kProbabilities && !p.infinite && !q.infinite) {
    if (p.exponent || q.exponent || p.total != q.total) {
      return surely_drawn_from_probabilities(*p.row, sum_of_probabilities(p), *q.row,
                                             sum_of_probabilities(q), 0.0, fraction, work);
    }
    const auto with_excess = [&](int t, auto use) {
      return with_tiles(*p.row, *q.row, t,
                        [&](const auto* x, const auto* z) { return use(like_excess(x, z)); });
    };
    return surely_drawn(tiles, with_excess, fraction, of_masses, work.tile_excess);
  }
  return -1;
}

// A draw from max(p - q, 0); from p where that has no mass.
inline int draw_from_residual(const Law& p, const Law& q, uint64_t fraction, Workspace& work) {
  const int token = surely_drawn_from_laws(p, q, fraction, work);
  if (token >= 0) return token;
  const TokenResidual residual{p.total, q.total};
  const KeptMass whole = keep_tiles(p, q, residual, work);
  return draw_from_kept(p, q, residual, whole, fraction, work);
}

}  // namespace
}  // namespace spec_decode_ops
