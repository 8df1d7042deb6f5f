// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary in plain C++: 16 lanes, as four of the compiler's generic 16-byte vectors,
// which it maps to what the target has. A port to an instruction set defines the same names.
// A target that has FMA where the compiler's own macros cannot tell says TARGET_HAS_FMA.
#pragma once

#include <cstring>

#include "common/divide.h"
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

#define EACH_PART(Result, ...)                                \
  Result result;                                              \
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
HOST_DEVICE F larger(F a, F b) { EACH_PART(F, a.part[p] > b.part[p] ? a.part[p] : b.part[p]); }

// The smaller of the two; b where a is NaN.
HOST_DEVICE F smaller(F a, F b) { EACH_PART(F, a.part[p] < b.part[p] ? a.part[p] : b.part[p]); }

#undef EACH_PART

HOST_DEVICE F fma_by_lane(const F& a, const F& b, F c) {
  for (int p = 0; p < 4; ++p) {
    for (int i = 0; i < 4; ++i) {
      c.part[p][i] = __builtin_fmaf(a.part[p][i], b.part[p][i], c.part[p][i]);
    }
  }
  return c;
}

#if defined(TARGET_HAS_FMA) || defined(__FP_FAST_FMAF)
HOST_DEVICE F fma(F a, F b, F c) { return fma_by_lane(a, b, c); }
#else
typedef float Floats2 __attribute__((vector_size(8)));
typedef double Doubles2 __attribute__((vector_size(16)));
typedef uint64_t Words2 __attribute__((vector_size(16)));

HOST_DEVICE Doubles2 half_of(Floats4 x, int half) {
  const Floats2 pair =
      half ? __builtin_shufflevector(x, x, 2, 3) : __builtin_shufflevector(x, x, 0, 1);
  return __builtin_convertvector(pair, Doubles2);
}

// In its highest bits, which lanes of a sum may round wrongly on their way to float32.
HOST_DEVICE Words2 doubtful(Doubles2 sum) {
  const Words2 pattern = (Words2)sum, magnitude = pattern << 1;
  const Words2 halfway = ((pattern & 0x1fffffff) ^ 0x10000000) - 1;
  const Words2 below_normal = ((magnitude >> 53) - 897) & ~(magnitude - 1);
  return halfway | below_normal;
}

static __attribute__((noinline)) F rare_fma(const F& a, const F& b, const F& c) {
  return fma_by_lane(a, b, c);
}

// a * b + c with one rounding, by float64: the product is exact there, and rounding the sum twice
// errs only when its first rounding lands halfway between two floats or below the normal floats.
// Vectors with such a lane are rare and are left to fmaf.
HOST_DEVICE F fma(F a, F b, F c) {
  F result;
  Words2 doubt = {0, 0};
  for (int p = 0; p < 4; ++p) {
    Floats2 rounded[2];
    for (int half = 0; half < 2; ++half) {
      const Doubles2 sum =
          half_of(a.part[p], half) * half_of(b.part[p], half) + half_of(c.part[p], half);
      rounded[half] = __builtin_convertvector(sum, Floats2);
      doubt |= doubtful(sum);
    }
    result.part[p] = __builtin_shufflevector(rounded[0], rounded[1], 0, 1, 2, 3);
  }
  const bool exact = int64_t(doubt[0] | doubt[1]) >= 0;
  return __builtin_expect(exact, 1) ? result : rare_fma(a, b, c);
}
#endif

// One bit a lane; false where either is NaN.
HOST_DEVICE uint32_t mask_ge(F a, F b) {
  uint32_t mask = 0;
  for (int p = 0; p < 4; ++p) {
    const Ints4 hit = (a.part[p] >= b.part[p]) & Ints4{1, 2, 4, 8};
    mask |= uint32_t(hit[0] | hit[1] | hit[2] | hit[3]) << (4 * p);
  }
  return mask;
}

// value in the lanes where a >= b, 0 elsewhere.
HOST_DEVICE I where_ge(F a, F b, I value) {
  for (int p = 0; p < 4; ++p) value.part[p] &= a.part[p] >= b.part[p];
  return value;
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
