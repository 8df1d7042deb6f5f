// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary of the scalar target: 16 lanes in plain C++, as four of the compiler's
// generic 16-byte vectors. A port to an instruction set defines the same names.
#pragma once

#include <cstring>

#include "common/float32.h"
#include "cpu/workspace.h"

namespace spec_decode_ops {
namespace {

typedef float Floats4 __attribute__((vector_size(16)));
typedef int32_t Ints4 __attribute__((vector_size(16)));

// Declared beside their vector overloads, the float32 ones stay visible.
using spec_decode_ops::add;
using spec_decode_ops::bits_above;
using spec_decode_ops::div;
using spec_decode_ops::fill;
using spec_decode_ops::fma;
using spec_decode_ops::larger;
using spec_decode_ops::mul;
using spec_decode_ops::shift_to_exponent;
using spec_decode_ops::sub;

struct F {
  Floats4 part[4];
};
struct I {
  Ints4 part[4];
};

#define EACH_PART(Result, ...)                        \
  Result result;                                      \
  for (int p = 0; p < 4; ++p) result.part[p] = (__VA_ARGS__); \
  return result

HOST_DEVICE F load(const float* from) {
  F result;
  std::memcpy(&result, from, sizeof result);
  return result;
}
HOST_DEVICE void store(float* to, F a) { std::memcpy(to, &a, sizeof a); }
HOST_DEVICE void store(int32_t* to, I a) { std::memcpy(to, &a, sizeof a); }

HOST_DEVICE F set1(float x) { EACH_PART(F, (Floats4{x, x, x, x})); }
HOST_DEVICE I set1(int32_t x) { EACH_PART(I, (Ints4{x, x, x, x})); }
HOST_DEVICE F add(F a, F b) { EACH_PART(F, a.part[p] + b.part[p]); }
HOST_DEVICE F sub(F a, F b) { EACH_PART(F, a.part[p] - b.part[p]); }
HOST_DEVICE F mul(F a, F b) { EACH_PART(F, a.part[p] * b.part[p]); }
HOST_DEVICE F div(F a, F b) { EACH_PART(F, a.part[p] / b.part[p]); }
HOST_DEVICE I add(I a, I b) { EACH_PART(I, a.part[p] + b.part[p]); }
HOST_DEVICE F fill(F, float constant) { return set1(constant); }
HOST_DEVICE F shift_to_exponent(F a) { EACH_PART(F, (Floats4)((Ints4)a.part[p] << 23)); }
HOST_DEVICE I bits_above(F a, float base) {
  const int32_t bits = int32_t(float_bits(base));
  EACH_PART(I, (Ints4)a.part[p] - Ints4{bits, bits, bits, bits});
}

// The larger of the two; b where a is NaN.
HOST_DEVICE F larger(F a, F b) {
  EACH_PART(F, a.part[p] > b.part[p] ? a.part[p] : b.part[p]);
}

#undef EACH_PART

// a * b + c with one rounding, by float64: the product is exact there, and rounding the sum twice
// errs only when its first rounding lands halfway between two floats or below the normal floats.
HOST_DEVICE F fma(F a, F b, F c) {
  float x[kLanes], y[kLanes], z[kLanes], result[kLanes];
  store(x, a), store(y, b), store(z, c);
#if defined(__FP_FAST_FMAF)
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = __builtin_fmaf(x[lane], y[lane], z[lane]);
#else
  uint64_t doubtful = 0;  // in its highest bit
  for (int lane = 0; lane < kLanes; ++lane) {
    const double sum = double(x[lane]) * double(y[lane]) + double(z[lane]);
    result[lane] = float(sum);
    uint64_t pattern;
    std::memcpy(&pattern, &sum, sizeof pattern);
    const uint64_t halfway = ((pattern & 0x1fffffff) ^ 0x10000000) - 1;
    const uint64_t magnitude = pattern << 1;
    const uint64_t tiny = ((magnitude >> 53) - 897) & ~(magnitude - 1);
    doubtful |= halfway | tiny;
  }
  if (__builtin_expect(doubtful >> 63, 0)) {
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = __builtin_fmaf(x[lane], y[lane], z[lane]);
    }
  }
#endif
  return load(result);
}

// One bit a lane; false where either is NaN.
HOST_DEVICE uint32_t mask_ge(F a, F b) {
  uint32_t mask = 0;
  for (int p = 0; p < 4; ++p) {
    const Ints4 hit = (a.part[p] >= b.part[p]) & Ints4{1, 2, 4, 8};
    mask |= uint32_t(hit[0] | hit[1] | hit[2] | hit[3]) << (4 * p);
  }
  return mask;
}

HOST_DEVICE bool any_ge(F a, F b) {
  Ints4 hit = a.part[0] >= b.part[0];
  for (int p = 1; p < 4; ++p) hit |= a.part[p] >= b.part[p];
  int64_t halves[2];
  std::memcpy(halves, &hit, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}

HOST_DEVICE float max_of(F a) {
  float lanes[kLanes], largest = -kInfinity;
  store(lanes, a);
  for (float lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

HOST_DEVICE int64_t sum_of(I a) {
  int32_t lanes[kLanes];
  int64_t sum = 0;
  store(lanes, a);
  for (int32_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace
}  // namespace spec_decode_ops
