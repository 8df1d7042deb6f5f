// SPDX-License-Identifier: Apache-2.0
// 192-bit unsigned integers, for products of three numbers of 64 bits.
#pragma once

#include "common/wide.h"

namespace spec_decode_ops {

struct Triple {
  uint64_t high, middle, low;
};

HOST_DEVICE Triple add(Triple a, Triple b) {
  const Wide low = add(Wide{0, a.low}, Wide{0, b.low});
  const Wide middle = add(add(Wide{0, a.middle}, Wide{0, b.middle}), Wide{0, low.high});
  return {a.high + b.high + middle.high, middle.low, low.low};
}

// requires a >= b
HOST_DEVICE Triple sub(Triple a, Triple b) {
  const bool borrow = a.low < b.low;
  const Wide upper = sub(sub(Wide{a.high, a.middle}, Wide{b.high, b.middle}), Wide{0, borrow});
  return {upper.high, upper.low, a.low - b.low};
}

HOST_DEVICE bool less(Triple a, Triple b) {
  return a.high != b.high ? a.high < b.high : less(Wide{a.middle, a.low}, Wide{b.middle, b.low});
}

HOST_DEVICE bool is_zero(Triple a) { return (a.high | a.middle | a.low) == 0; }

// requires a * b < 2^192
HOST_DEVICE Triple multiply(Wide a, uint64_t b) {
  const Wide low = multiply(a.low, b);
  const Wide upper = add(multiply(a.high, b), Wide{0, low.high});
  return {upper.high, upper.low, low.low};
}

// floor(fraction / 2^64 * a): never reaches a, whatever the fraction.
HOST_DEVICE Triple scale(uint64_t fraction, Triple a) {
  const Wide high = multiply(fraction, a.high);
  const Wide rest = scale(fraction, Wide{a.middle, a.low});
  return add(Triple{high.high, high.low, 0}, Triple{0, rest.high, rest.low});
}

// a * 2^bits. requires 0 <= bits < 128, and a result below 2^192
HOST_DEVICE Triple shift_up(Triple a, int bits) {
  if (bits >= 64) a = {a.middle, a.low, 0};
  const int rest = bits % 64;
  if (rest == 0) return a;
  return {a.high << rest | a.middle >> (64 - rest), a.middle << rest | a.low >> (64 - rest),
          a.low << rest};
}

HOST_DEVICE int leading_zeros(uint64_t a) {  // requires a > 0
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(a));
#else
  return __builtin_clzll(a);
#endif
}

// floor(a / b). requires b > 0 and a < 2^63 * b
HOST_DEVICE uint64_t divide(Triple a, Wide b) {
  // Both are moved up until b takes all of 128 bits.
  const int bits = b.high ? leading_zeros(b.high) : 64 + leading_zeros(b.low);
  const Triple divisor = shift_up({0, b.high, b.low}, bits);
  Triple left = shift_up(a, bits);
  // Digits are taken from below, by a divisor that is rounded up to 32 bits; each step leaves less
  // than 3 of its own unit, which is for the next.
  const uint64_t rounded = (divisor.middle >> 32) + 1;
  uint64_t quotient = 0;
  const auto take = [&](uint64_t digit, int unit) {
    quotient += digit << unit;
    left = sub(left, multiply(Wide{divisor.middle, divisor.low}, digit << unit));
  };
  take(left.high / rounded, 32);
  take((left.high << 30 | left.middle >> 34) / rounded, 2);
  take((left.high << 32 | left.middle >> 32) / rounded, 0);
  while (!less(left, divisor)) take(1, 0);
  return quotient;
}

}  // namespace spec_decode_ops
