// SPDX-License-Identifier: Apache-2.0
// Sums of floats, quick and off by less than a known part of them: 16 terms at a time are added in
// float32, by four additions one upon the other, and what they give in float64.
#pragma once

#include "cpu/reduce-inl.h"

namespace spec_decode_ops {
namespace {

// For terms >= 0, of up to 2^20 tokens, each of which may have been rounded once itself.
constexpr double kOffBySum = 5 * 0x1p-24;

// Of a tile's terms, of which at(i) gives 16 from the i-th on.
template <class At>
[[gnu::always_inline]] inline double sum_of_tile(const At& at) {
  D sum{};
#pragma GCC unroll 1  // as in lane_maxima
  for (int i = 0; i < kTile; i += 8 * kLanes) {
    F even = add(at(i), at(i + 2 * kLanes)), odd = add(at(i + kLanes), at(i + 3 * kLanes));
    even = add(even, add(at(i + 4 * kLanes), at(i + 6 * kLanes)));
    odd = add(odd, add(at(i + 5 * kLanes), at(i + 7 * kLanes)));
    sum = add_halves(sum, add(even, odd));
  }
  return rough_sum_of(sum);
}

}  // namespace
}  // namespace spec_decode_ops
