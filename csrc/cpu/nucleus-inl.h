// SPDX-License-Identifier: Apache-2.0
// top-p alone, by drawing first and asking afterwards: the argmax over the whole row, if it lies in
// the nucleus, is the argmax over the nucleus. No threshold is searched for.
#pragma once

#include "cpu/draw-inl.h"

namespace spec_decode_ops {
namespace {

// The share of draws that lie in the nucleus is at least top_p; below this asking does not pay.
constexpr double kAskFrom = 0.6;

// The mass of the tokens of one tie class from `token` on.
inline uint64_t ties_not_before(const Row& row, int token, const TieClass& ties,
                                const MassScale& scale) {
  uint64_t sum = 0;
  for_each_between(row, token / kTile, ties.first, ties.beyond, [&](int tie, float x) {
    if (tie >= token) sum += mass(x, scale);
    return false;
  });
  return sum;
}

// The mass before the token in the row's order, by a list of what may stand before it.
inline uint64_t mass_before_by_list(const Row& row, int token, const MassScale& scale,
                                    const TieClass& ties, float* list) {
  const F first = set1(ties.first);
  float buffer[kTile];
  int count = 0;
  for (int t = 0; t < row.tiles(); ++t) {
    if (!tile_reaches(row.space(), t, ties.first)) continue;
    count += pack(row.tile(t, buffer), kTile, list + count, [&](F v) { return mask_ge(v, first); });
  }
  const uint64_t mass_from = mass_of_list(list, count, scale);
  int equal = count;
  for (int i = 0; i < count; i += kLanes) {
    equal -= __builtin_popcount(mask_ge(load(list + i), set1(ties.beyond)));
  }
  return mass_from -
         (equal == 1 ? mass(row.at(token), scale) : ties_not_before(row, token, ties, scale));
}

// Some mass of the row below `floor`: its lane maxima there.
inline uint64_t some_mass_below(const Row& row, float floor, const SoftmaxWeight& weight_of) {
  uint64_t sum = 0;
  MassSum maxima;
  for (int t = 0; t < row.tiles(); ++t) {
    const F m = load(row.space().lane_max + t * kLanes);
    maxima.take(weight_of(choose_gt(set1(floor), m, m, set1(-kInfinity))));
    if (t % kSummedVectors == kSummedVectors - 1 || t == row.tiles() - 1) {
      sum += maxima.total();
      maxima = MassSum();
    }
  }
  return sum;
}

// Whether top-p keeps the token, for one that may have much of the row before it. The mass after it
// may do before all is seen: were the row's mass the most it can be, that of its lane maxima as
// often as a lane has tokens, more would stand before the token, and the quota grows by less.
inline bool in_nucleus_by_sums(const Row& row, int token, double top_p,
                               const SoftmaxWeight& weight_of, const TieClass& ties) {
  uint64_t most = some_mass_below(row, kInfinity, weight_of) * (kTile / kLanes);
  most += (most >> 16) + uint64_t(row.vocab());  // masses are not monotone to the last bit
  const uint64_t most_quota = top_p_quota(top_p, most);
  float buffer[kTile];
  uint64_t before = 0, total = 0;
  for (int t = 0; t < row.tiles(); ++t) {
    uint64_t whole;
    before += tile_mass_from(row.tile(t, buffer), weight_of, ties.first, whole);
    total += whole;
    if (most - (total - before) < most_quota) return true;
  }
  return before - ties_not_before(row, token, ties, weight_of.scale) < top_p_quota(top_p, total);
}

// Whether top-p keeps the token: the mass before it in the row's order is under the quota. The
// quota grows with the mass that was seen so far, so that a part of the row may do.
inline bool in_nucleus(const Row& row, float x_max, int token, float temperature, double top_p,
                       Workspace& work) {
  const SoftmaxWeight weight_of{mass_scale(x_max, temperature)};
  const TieClass ties = ties_of(row.at(token), x_max, temperature);
  if (4 * lanes_reaching(row, ties.first) > row.tiles() * kLanes) {
    return in_nucleus_by_sums(row, token, top_p, weight_of, ties);
  }
  const uint64_t before = mass_before_by_list(row, token, weight_of.scale, ties, work.value[0]);
  const uint64_t below = some_mass_below(row, ties.first, weight_of);
  if (before < top_p_quota(top_p, before + below)) return true;
  uint64_t seen = 0;
  float buffer[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    seen += tile_mass(row.tile(t, buffer), weight_of);
    if (before < top_p_quota(top_p, seen)) return true;
  }
  return false;
}

}  // namespace
}  // namespace spec_decode_ops
