// SPDX-License-Identifier: Apache-2.0
// 128-bit unsigned integers, in which probabilities are compared and summed without rounding.
#pragma once

#include <cstdint>

#include "common/macros.h"

namespace spec_decode_ops {

struct Wide {
  uint64_t high, low;
};

HOST_DEVICE uint64_t mul_high(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  __extension__ typedef unsigned __int128 Product;
  return uint64_t((Product(a) * b) >> 64);
#endif
}

HOST_DEVICE Wide multiply(uint64_t a, uint64_t b) { return {mul_high(a, b), a * b}; }

HOST_DEVICE Wide add(Wide a, Wide b) {
  const uint64_t low = a.low + b.low;
  return {a.high + b.high + (low < b.low), low};
}

// requires a >= b
HOST_DEVICE Wide sub(Wide a, Wide b) { return {a.high - b.high - (a.low < b.low), a.low - b.low}; }

HOST_DEVICE bool less(Wide a, Wide b) { return a.high != b.high ? a.high < b.high : a.low < b.low; }

HOST_DEVICE bool is_zero(Wide a) { return (a.high | a.low) == 0; }

// floor(fraction / 2^64 * a): never reaches a, whatever the fraction.
HOST_DEVICE Wide scale(uint64_t fraction, Wide a) {
  return add(multiply(fraction, a.high), Wide{0, mul_high(fraction, a.low)});
}

}  // namespace spec_decode_ops
