// SPDX-License-Identifier: Apache-2.0
// The law of one position, target or draft, as integer masses over a total, whatever it comes from;
// and draws from it.
#pragma once

#include "cpu/mass-inl.h"
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

// What the tokens of a tile weigh by a softmax law, once that is summed.
inline float* weights_of_tile(const Law& law, int t) {
  return law.row->space().weight + int64_t(t) * kTile;
}

// The mass of a tile. Its weights by a softmax law are kept.
inline uint64_t weigh_tile(const Law& law, int t) {
  if (law.kind != Law::kSoftmax) return mass_of_tile(law, t);
  float buffer[kTile];
  float* weight = weights_of_tile(law, t);
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
  const uint64_t total = law.summed ? law.total : sum_tiles(law);
  if (total == 0) return -1;
  const uint64_t* sums = law.row->space().tile_sum;
  uint64_t goal = mul_high(fraction, total);
  int t = 0, i = 0;
  for (; goal >= sums[t]; ++t) goal -= sums[t];
  uint64_t mass[kTile];
  tile_masses(law, t, mass);
  for (; goal >= mass[i]; ++i) goal -= mass[i];
  return t * kTile + i;
}

}  // namespace
}  // namespace spec_decode_ops
