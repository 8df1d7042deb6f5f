// SPDX-License-Identifier: Apache-2.0
// Float32 arithmetic that rounds once and to nearest, on every machine.
//
// Compilers may contract a*b + c into one rounding; nvcc does so by default. Code that decides a
// token says which of the two it means, through these functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/macros.h"

namespace spec_decode_ops {

constexpr float kInfinity = __builtin_inff();
constexpr float kMaxFloat = 3.402823466e38f;

HOST_DEVICE uint32_t float_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

HOST_DEVICE float bits_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

#if defined(__CUDA_ARCH__)
HOST_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
HOST_DEVICE float sub(float a, float b) { return __fsub_rn(a, b); }
HOST_DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
HOST_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#else
HOST_DEVICE float add(float a, float b) { return a + b; }
HOST_DEVICE float sub(float a, float b) { return a - b; }
HOST_DEVICE float mul(float a, float b) { return a * b; }
HOST_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#endif

// The vocabulary of the formulas that CPU kernels also evaluate on vectors of floats: a vector type
// brings the same names, and the formula is written once, for both.
HOST_DEVICE float fill(float, float constant) { return constant; }  // in the first argument's type
HOST_DEVICE float larger(float a, float b) { return a > b ? a : b; }  // b where a is NaN
HOST_DEVICE float shift_to_exponent(float x) { return bits_float(float_bits(x) << 23); }
HOST_DEVICE int32_t bits_above(float x, float base) {
  return int32_t(float_bits(x) - float_bits(base));
}

// c0 + c1 x + c2 x^2 + ..., by Horner's rule with one rounding a step.
template <class F>
HOST_DEVICE F horner(F x, float c0) {
  return fill(x, c0);
}
template <class F, class... Rest>
HOST_DEVICE F horner(F x, float c0, Rest... rest) {
  return fma(horner(x, rest...), x, fill(x, c0));
}

}  // namespace spec_decode_ops
