// SPDX-License-Identifier: Apache-2.0
// top-p alone, by drawing first and asking afterwards: the argmax over the whole row, if it lies in
// the nucleus, is the argmax over the nucleus. No threshold is searched for.
#pragma once

#include "cpu/draw-inl.h"

namespace spec_decode_ops {
namespace {

// The share of draws that lie in the nucleus is at least top_p; below this asking does not pay.
constexpr double kAskFrom = 0.6;

// The mass of the tokens of one tile that equal a tie class [from, above) and are not before
// `token`.
inline uint64_t ties_not_before(const float* x, int first, int token, float from, float above,
                                const MassScale& scale) {
  uint64_t sum = 0;
  for (int i = 0; i < kTile; i += kLanes) {
    const F v = load(x + i);
    uint32_t ties = mask_ge(v, set1(from)) & ~mask_ge(v, set1(above));
    for (; ties; ties &= ties - 1) {
      const int lane = i + __builtin_ctz(ties);
      if (first + lane >= token) sum += mass(x[lane], scale);
    }
  }
  return sum;
}

// Whether top-p keeps the token: the mass before it in the row's order is under the quota. The
// quota grows with the mass that was seen so far, so that a part of the row may do.
inline bool in_nucleus(const Row& row, float x_max, int token, float temperature, double top_p) {
  const SoftmaxWeight weight_of{mass_scale(x_max, temperature)};
  const float y = quotient(row.at(token), temperature);
  const float from = least_logit(y, temperature);
  const float largest = quotient(x_max, temperature);
  const float above =
      y < largest ? least_logit(key_value(order_key(y) + 1), temperature) : kInfinity;
  // Pass 1: the tiles with tokens that may stand before it.
  float buffer[kTile];
  uint64_t before = 0, seen = 0;
  for (int t = 0; t < row.tiles(); ++t) {
    if (!tile_reaches(row.space(), t, from)) continue;
    const float* x = row.tile(t, buffer);
    uint64_t whole;
    before += tile_mass_from(x, weight_of, from, whole);
    seen += whole;
    if (t >= token / kTile) {
      before -= ties_not_before(x, t * kTile, token, from, above, weight_of.scale);
    }
  }
  // Pass 2: of the others the lane maxima, which are some of their tokens.
  uint64_t maxima = seen;
  for (int t = 0; t < row.tiles(); ++t) {
    if (tile_reaches(row.space(), t, from)) continue;
    MassSum sum;
    sum.take(weight_of(load(row.space().lane_max + t * kLanes)));
    maxima += sum.total();
  }
  if (before < top_p_quota(top_p, maxima)) return true;
  // Pass 3: the others, as far as it takes.
  for (int t = 0; t < row.tiles(); ++t) {
    if (tile_reaches(row.space(), t, from)) continue;
    seen += tile_mass(row.tile(t, buffer), weight_of);
    if (before < top_p_quota(top_p, seen)) return true;
  }
  return before < top_p_quota(top_p, seen);
}

}  // namespace
}  // namespace spec_decode_ops
