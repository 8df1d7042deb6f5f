// SPDX-License-Identifier: Apache-2.0
// The law of one position, target or draft, as integer masses over a total, whatever it comes from;
// and draws by integer weight from a law or from the residual of two.
#pragma once

#include "cpu/excess-inl.h"
#include "cpu/residual-inl.h"
#include "cpu/select-inl.h"

namespace spec_decode_ops {
namespace {

struct Law {
  enum Kind { kSoftmax, kSelection, kProbabilities, kOneToken };
  Kind kind;
  uint64_t total;       // the denominator of every mass: the sum of masses, or what stands for it
  const Row* row;       // of the first three kinds; its space.tile_sum holds the mass of each tile
  MassScale scale;      // kSoftmax
  Selection selection;  // kSelection
  int exponent;         // kProbabilities: masses are in units of 2^(exponent - 43)
  bool infinite;        // kProbabilities: the row holds +inf
  bool united;          // kProbabilities: UnitedWeight serves it
  int token;            // kOneToken: its mass is all there is, 1 of 1
  bool summed;          // whether space.tile_sum is filled
};

inline Law one_token(int token) {
  Law law{};
  law.kind = Law::kOneToken;
  law.token = token;
  law.total = 1;
  return law;
}

// The first entry of the selection at `token` or above.
inline int entry_from(const Law& law, int token) {
  const int32_t* id = law.row->space().id;
  int low = 0, high = law.selection.count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (id[middle] < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// 0 for a token that the law does not know.
inline uint64_t mass_of(const Law& law, int token) {
  if (law.kind == Law::kOneToken) return token == law.token;
  if (token >= law.row->vocab()) return 0;
  if (law.kind == Law::kSoftmax) return mass(law.row->at(token), law.scale);
  if (law.kind == Law::kProbabilities)
    return probability_mass(law.row->at(token), law.infinite, law.exponent);
  const int entry = entry_from(law, token);
  const RowSpace& space = law.row->space();
  return entry < law.selection.count && space.id[entry] == token ? space.mass[entry] : 0;
}

// The masses of tile t, which may lie past the law's vocabulary.
inline void tile_masses(const Law& law, int t, uint64_t* out) {
  if (law.kind == Law::kSoftmax && t < law.row->tiles()) {
    float buffer[kTile];
    const float* x = law.row->tile(t, buffer);
    for (int i = 0; i < kTile; i += kLanes) masses(x + i, SoftmaxWeight{law.scale}, out + i);
    return;
  }
  if (law.kind == Law::kProbabilities && t < law.row->tiles()) {
    float buffer[kTile];
    const float* p = law.row->tile(t, buffer);
    if (law.infinite) {
      for (int i = 0; i < kTile; ++i) out[i] = probability_mass(p[i], law.infinite, law.exponent);
    } else {
      const ProbabilityWeight weight_of(law.exponent);
      for (int i = 0; i < kTile; i += kLanes) masses(p + i, weight_of, out + i);
    }
    return;
  }
  for (int i = 0; i < kTile; ++i) out[i] = 0;
  if (law.kind == Law::kOneToken) {
    if (law.token / kTile == t) out[law.token % kTile] = 1;
  } else if (law.kind == Law::kSelection) {
    const RowSpace& space = law.row->space();
    for (int e = entry_from(law, t * kTile); e < law.selection.count && space.id[e] / kTile == t;
         ++e) {
      out[space.id[e] % kTile] = space.mass[e];
    }
  }
}

inline uint64_t mass_of_tile(const Law& law, int t) {
  float buffer[kTile];
  const float* x = law.row->tile(t, buffer);
  if (law.kind == Law::kSoftmax) return tile_mass(x, SoftmaxWeight{law.scale});
  if (law.united) return tile_mass(x, UnitedWeight(law.exponent));
  if (!law.infinite) return tile_mass(x, ProbabilityWeight(law.exponent));
  uint64_t sum = 0;
  for (int i = 0; i < kTile; ++i) sum += probability_mass(x[i], law.infinite, law.exponent);
  return sum;
}

// The same. What a softmax law's tokens weigh is left in the row's space.
inline uint64_t weigh_tile(const Law& law, int t) {
  if (law.kind != Law::kSoftmax) return mass_of_tile(law, t);
  float buffer[kTile];
  float* weight = law.row->space().weight + int64_t(t) * kTile;
  weigh(law.row->tile(t, buffer), kTile, SoftmaxWeight{law.scale}, weight);
  return mass_of_weights(weight, kTile);
}

// Fills the row's tile sums, and its weights; returns the sum of the sums.
inline uint64_t sum_tiles(const Law& law) {
  const RowSpace& space = law.row->space();
  uint64_t total = 0;
  for (int t = 0; t < law.row->tiles(); ++t) {
    space.tile_sum[t] = law.kind == Law::kSelection ? 0 : weigh_tile(law, t);
    total += space.tile_sum[t];
  }
  for (int e = 0; e < law.selection.count; ++e) {
    space.tile_sum[space.id[e] / kTile] += space.mass[e];
    total += space.mass[e];
  }
  return total;
}

// Sums the law's masses; their sum is its total.
inline void take_total(Law& law) {
  law.total = sum_tiles(law);
  law.summed = true;
}

// A token drawn from the law, the first at which the running sum of masses exceeds `fraction` of
// the whole; -1 if it has no mass.
inline int draw_from_law(const Law& law, uint64_t fraction) {
  const uint64_t* sums = law.row->space().tile_sum;
  uint64_t total = 0;
  if (law.summed) {
    for (int t = 0; t < law.row->tiles(); ++t) total += sums[t];
  } else {
    total = sum_tiles(law);
  }
  if (total == 0) return -1;
  uint64_t goal = mul_high(fraction, total);
  int t = 0, i = 0;
  for (; goal >= sums[t]; ++t) goal -= sums[t];
  uint64_t mass[kTile];
  tile_masses(law, t, mass);
  for (; goal >= mass[i]; ++i) goal -= mass[i];
  return t * kTile + i;
}

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

// What draws are told from: the weights of a tile, or the probabilities, from their unit on.
inline const float* tile_weights(const Law& law, int t, float* buffer) {
  if (t >= law.row->tiles()) {
    std::fill_n(buffer, kTile, 0.0f);
    return buffer;
  }
  if (law.kind == Law::kSoftmax) return law.row->space().weight + int64_t(t) * kTile;
  return law.row->tile(t, buffer);
}

// Whether tile_weights are weights of the law, in one unit of floats of ordinary size.
inline bool has_weights(const Law& law) {
  if (law.kind == Law::kSoftmax) return law.summed;
  return law.kind == Law::kProbabilities && !law.infinite && law.total > 0;
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
  const double unit = std::ldexp(1.0, q.exponent), scale = ratio * std::ldexp(unit, -p.exponent);
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

// What a position makes of its draft token: it is accepted, or `token` is emitted and the round
// ends.
struct Verdict {
  bool accepted;
  int token;
};

// The random fractions a position may use.
struct Fractions {
  uint64_t accept, residual, bonus;
};

inline Verdict end_of_draft(const Law& target, const Fractions& u) {
  return {false, draw_from_law(target, u.bonus)};
}

// The token rule. requires 0 <= token < 2^20; a law that lacks it gives it no mass
inline Verdict judge_by_ratio(const Law& target, const Law& draft, int token, const Fractions& u,
                              Workspace& work) {
  const uint64_t q = mass_of(draft, token);
  if (q == 0) return end_of_draft(target, u);
  if (accepts(u.accept, mass_of(target, token), target.total, q, draft.total)) return {true, token};
  return {false, draw_from_residual(target, draft, u.residual, work)};
}

inline Verdict judge_by_equality(int token, int64_t drafted) {
  return {token >= 0 && token == drafted, token};
}

}  // namespace
}  // namespace spec_decode_ops
