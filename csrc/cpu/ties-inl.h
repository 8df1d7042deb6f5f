// SPDX-License-Identifier: Apache-2.0
// The classes of logits whose quotients x/T are equal, and a row's tokens of one.
#pragma once

#include "cpu/reduce-inl.h"

namespace spec_decode_ops {
namespace {

// The least logit whose quotient equals that of x.
inline float class_of(float x, float temperature) {
  return least_logit(quotient(x, temperature), temperature);
}

// The logits whose quotients are y, from `first` up to but not with `beyond`.
struct TieClass {
  float y, first, beyond;
  bool holds(float x) const { return x >= first && x < beyond; }
};

// That of x. requires x <= max, the row's finite maximum
inline TieClass ties_of(float x, float max, float temperature) {
  const float y = quotient(x, temperature);
  const bool top = y >= quotient(max, temperature);
  return {y, least_logit(y, temperature),
          top ? kInfinity : least_logit(key_value(order_key(y) + 1), temperature)};
}

// Calls enough(token, logit) for the tokens from `first` up to but not with `beyond`, in tile
// `from` and those after it, by ascending id, until it says so.
template <class Enough>
inline void for_each_between(const Row& row, int from, float first, float beyond, Enough enough) {
  const F least = set1(first), above = set1(beyond), none = set1(-kInfinity);
  float buffer[kTile];
  for (int t = from; t < row.tiles(); ++t) {
    if (!tile_reaches(row.space(), t, first)) continue;
    const float* x = row.tile(t, buffer);
    for (int i = 0; i < kTile; i += 4 * kLanes) {
      F largest = none;
      for (int j = i; j < i + 4 * kLanes; j += kLanes) {
        largest = larger(choose_gt(above, load(x + j), load(x + j), none), largest);
      }
      if (!any_ge(largest, least)) continue;
      for (int at = i; at < i + 4 * kLanes; ++at) {
        if (x[at] >= first && x[at] < beyond && enough(t * kTile + at, x[at])) return;
      }
    }
  }
}

}  // namespace
}  // namespace spec_decode_ops
