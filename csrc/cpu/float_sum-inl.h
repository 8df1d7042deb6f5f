// SPDX-License-Identifier: Apache-2.0
// Sums of floats, quick and off by less than a known part of them: those of a tile are added in
// float32, by ten additions one upon the other, and what tiles give in float64.
#pragma once

#include "cpu/reduce-inl.h"

namespace spec_decode_ops {
namespace {

// For terms >= 0, of up to 2^20 tokens, each of which may have been rounded once itself.
constexpr double kOffBySum = 11 * 0x1p-24;

// Of a tile's terms, of which at(i) gives 16 from the i-th on.
template <class At>
[[gnu::always_inline]] inline double sum_of_tile(const At& at) {
  const F none = set1(0.0f);
  F a = none, b = none, c = none, d = none;
#pragma GCC unroll 1  // as in lane_maxima
  for (int i = 0; i < kTile; i += 4 * kLanes) {
    a = add(at(i), a);
    b = add(at(i + kLanes), b);
    c = add(at(i + 2 * kLanes), c);
    d = add(at(i + 3 * kLanes), d);
  }
  return rough_sum_of(add_halves(D{}, add(add(a, b), add(c, d))));
}

}  // namespace
}  // namespace spec_decode_ops
