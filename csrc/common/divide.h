// SPDX-License-Identifier: Apache-2.0
// IEEE division from additions and multiplications, for devices whose own division is a call that
// begins with an approximation: divide(a, b) has the bits of a / b, except for NaN payloads.
//
// Newton's iteration gives 1/b, and of the two floats around a/b the one with the smaller
// remainder, which fma gives exactly, is the nearer. Operands of extraordinary size are scaled
// before and the quotient after, with one rounding in all.
#pragma once

#include "common/float32.h"

namespace spec_decode_ops {

HOST_DEVICE int leading_zeros(uint32_t x) {
#if defined(__CUDA_ARCH__)
  return __clz(int(x));
#else
  return x ? __builtin_clz(x) : 32;
#endif
}

HOST_DEVICE float magnitude(float x) { return bits_float(float_bits(x) & 0x7fffffffu); }

// |x| in [2^-50, 2^50): no intermediate result of a division of two such numbers is rounded to a
// subnormal or overflows.
HOST_DEVICE bool of_ordinary_size(float x) {
  return (float_bits(x) & 0x7fffffffu) - 0x26800000u < 0x58800000u - 0x26800000u;
}

// 1/b, within an ulp. requires b of ordinary size
HOST_DEVICE float near_reciprocal(float b) {
  const float size = magnitude(b);
  float r = bits_float(0x7ef311c7u - float_bits(size));  // within 13 %, by the exponent's sign
  for (int i = 0; i < 4; ++i) r = fma(r, fma(-size, r, 1.0f), r);
  return b < 0.0f ? -r : r;
}

// a / b from r, which is 1/b within an ulp. requires operands of ordinary size
HOST_DEVICE float quotient_of_ordinary(float a, float b, float r) {
  const float q = mul(a, r);
  const float near = fma(fma(-q, b, a), r, q);  // one of the two floats around a/b
  const float rest = fma(-near, b, a);
  const bool outward = (float_bits(rest) ^ float_bits(a)) >> 31 == 0;  // a/b is larger in size
  const float other = bits_float(float_bits(near) + (outward ? 1u : 0xffffffffu));
  return magnitude(fma(-other, b, a)) < magnitude(rest) ? other : near;
}

// A positive finite number as fraction * 2^exponent, with fraction in [1, 2).
struct Split {
  float fraction;
  int exponent;
};

HOST_DEVICE Split split(uint32_t bits) {
  const int up = bits < 0x800000u ? leading_zeros(bits) - 8 : 0;
  const uint32_t shifted = bits << up;
  return {bits_float((shifted & 0x7fffffu) | 0x3f800000u), int(shifted >> 23) - up - 127};
}

// quotient * 2^exponent, rounded as if the quotient, in (1/2, 2), had not been rounded before:
// `rest` has the sign of what its rounding dropped.
HOST_DEVICE uint32_t scale_rounded(float quotient, float rest, int exponent) {
  const int biased = int(float_bits(quotient) >> 23) + exponent;
  if (biased >= 255) return 0x7f800000u;
  if (biased > 0) return float_bits(quotient) + (uint32_t(exponent) << 23);
  const int down = biased > -25 ? 1 - biased : 26;
  const uint32_t digits = (float_bits(quotient) & 0x7fffffu) | 0x800000u;
  const uint32_t half = 1u << (down - 1), floor = digits >> down;
  const uint32_t dropped = digits & (2 * half - 1);
  const bool tie_up = rest > 0.0f || (rest == 0.0f && (floor & 1));
  return floor + (dropped > half || (dropped == half && tie_up));
}

HOST_DEVICE float divide_extraordinary(float a, float b) {
  const uint32_t sign = (float_bits(a) ^ float_bits(b)) & 0x80000000u;
  const uint32_t x = float_bits(a) & 0x7fffffffu, y = float_bits(b) & 0x7fffffffu;
  constexpr uint32_t infinity = 0x7f800000u;
  const bool none = x > infinity || y > infinity || (x == infinity && y == infinity) || !(x | y);
  if (none) return bits_float(0x7fc00000u);
  if (x == infinity || y == 0) return bits_float(sign | infinity);
  if (x == 0 || y == infinity) return bits_float(sign);
  const Split n = split(x), d = split(y);
  const float q = quotient_of_ordinary(n.fraction, d.fraction, near_reciprocal(d.fraction));
  const float rest = fma(-q, d.fraction, n.fraction);
  return bits_float(sign | scale_rounded(q, rest, n.exponent - d.exponent));
}

HOST_DEVICE float divide(float a, float b) {
  if (!of_ordinary_size(a) || !of_ordinary_size(b)) return divide_extraordinary(a, b);
  return quotient_of_ordinary(a, b, near_reciprocal(b));
}

#if defined(__CUDA_ARCH__)
HOST_DEVICE float div(float a, float b) { return divide(a, b); }
#else
HOST_DEVICE float div(float a, float b) { return a / b; }
#endif

// Division of many numbers by one.
struct Divisor {
  float value, reciprocal;
  bool ordinary;
};

HOST_DEVICE Divisor divisor(float value) {
  const bool ordinary = of_ordinary_size(value);
  return {value, ordinary ? near_reciprocal(value) : 0.0f, ordinary};
}

HOST_DEVICE float divide(float a, const Divisor& by) {
  if (!by.ordinary || !of_ordinary_size(a)) return divide_extraordinary(a, by.value);
  return quotient_of_ordinary(a, by.value, by.reciprocal);
}

}  // namespace spec_decode_ops
