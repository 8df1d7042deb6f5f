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

// Whether top-p keeps the token: the mass before it in the row's order is under the quota.
inline bool in_nucleus(const Row& row, float x_max, int token, float temperature, double top_p) {
  const SoftmaxWeight weight_of{mass_scale(x_max, temperature)};
  const float y = quotient(row.at(token), temperature);
  const float from = least_logit(y, temperature);
  const float largest = quotient(x_max, temperature);
  const float above =
      y < largest ? least_logit(key_value(order_key(y) + 1), temperature) : kInfinity;
  float buffer[kTile];
  uint64_t total = 0, before = 0;
  for (int t = 0; t < row.tiles(); ++t) {
    const float* x = row.tile(t, buffer);
    if (!tile_reaches(row.space(), t, from)) {
      total += tile_mass(x, weight_of);
      continue;
    }
    uint64_t whole;
    before += tile_mass_from(x, weight_of, from, whole);
    total += whole;
    if (t >= token / kTile) {
      before -= ties_not_before(x, t * kTile, token, from, above, weight_of.scale);
    }
  }
  return before < top_p_quota(top_p, total);
}

}  // namespace
}  // namespace spec_decode_ops
