// SPDX-License-Identifier: Apache-2.0
// Sums of floats, quick and off by less than a known part of them: 16 terms at a time are added in
// float32, by five additions one upon the other, and what they give in float64.
#pragma once

#include "cpu/reduce-inl.h"

namespace spec_decode_ops {
namespace {

// For terms >= 0, of up to 2^20 tokens, each of which may have been rounded once itself.
constexpr double kOffBySum = 6 * 0x1p-24;

// `sum` and the terms of a tile, of which at(i) gives 16 from the i-th on.
template <class At>
inline D add_tile(D sum, const At& at) {
#pragma GCC unroll 1  // as in lane_maxima
  for (int i = 0; i < kTile;) {
    F even = set1(0.0f), odd = even;
    for (const int end = i + 8 * kLanes; i < end; i += 2 * kLanes) {
      even = add(even, at(i));
      odd = add(odd, at(i + kLanes));
    }
    sum = add_halves(sum, add(even, odd));
  }
  return sum;
}

}  // namespace
}  // namespace spec_decode_ops
