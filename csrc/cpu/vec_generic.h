// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary in plain C++, and the definition of every name in it: a port to an
// instruction set defines the same names with the same results.
//
//   F  16 lanes of float32, I 16 lanes of int32, Q 8 lanes of uint64, D 8 lanes of float64
//
// Here they are the compiler's generic vectors of 16 bytes, which it maps to what the target has.
#pragma once

#include <cstring>

#include "common/dtype.h"
#include "cpu/vec_float32.h"
#include "cpu/workspace.h"

namespace spec_decode_ops {
namespace {

typedef float Floats4 __attribute__((vector_size(16)));
typedef int32_t Ints4 __attribute__((vector_size(16)));
typedef uint32_t Bits4 __attribute__((vector_size(16)));
typedef uint64_t Words2 __attribute__((vector_size(16)));
typedef float Floats2 __attribute__((vector_size(8)));
typedef double Doubles2 __attribute__((vector_size(16)));

struct F {
  Floats4 part[4];
};
struct I {
  Ints4 part[4];
};
struct Q {
  Words2 part[4];
};
struct D {
  Doubles2 part[4];
};

#define EACH_PART(Result, ...)                                \
  Result result;                                              \
  for (int p = 0; p < 4; ++p) result.part[p] = (__VA_ARGS__); \
  return result

// ---- Memory, at any alignment ----

HOST_DEVICE F load(const float* from) {
  F result;
  std::memcpy(&result, from, sizeof result);
  return result;
}
HOST_DEVICE I load(const int32_t* from) {
  I result;
  std::memcpy(&result, from, sizeof result);
  return result;
}
HOST_DEVICE void store(float* to, F a) { std::memcpy(to, &a, sizeof a); }
HOST_DEVICE void store(int32_t* to, I a) { std::memcpy(to, &a, sizeof a); }
HOST_DEVICE void store(uint64_t* to, Q a) { std::memcpy(to, &a, sizeof a); }

// 16 elements of 16 bits, widened exactly (common/dtype.h).
template <class Narrow>
HOST_DEVICE F load_widened(const Narrow* from) {
  float lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = widen(from[lane]);
  return load(lanes);
}
HOST_DEVICE F load(const BFloat16* from) { return load_widened(from); }
HOST_DEVICE F load(const Half* from) { return load_widened(from); }

// ---- Arithmetic, lane by lane; every float32 result is rounded once ----

HOST_DEVICE F set1(float x) { EACH_PART(F, (Floats4{x, x, x, x})); }
HOST_DEVICE I set1(int32_t x) { EACH_PART(I, (Ints4{x, x, x, x})); }
HOST_DEVICE F add(F a, F b) { EACH_PART(F, a.part[p] + b.part[p]); }
HOST_DEVICE F sub(F a, F b) { EACH_PART(F, a.part[p] - b.part[p]); }
HOST_DEVICE F mul(F a, F b) { EACH_PART(F, a.part[p] * b.part[p]); }
HOST_DEVICE F div(F a, F b) { EACH_PART(F, a.part[p] / b.part[p]); }
// Integers wrap, which only unsigned ones may do.
HOST_DEVICE I add(I a, I b) { EACH_PART(I, (Ints4)((Bits4)a.part[p] + (Bits4)b.part[p])); }
HOST_DEVICE I sub(I a, I b) { EACH_PART(I, (Ints4)((Bits4)a.part[p] - (Bits4)b.part[p])); }
HOST_DEVICE F fill(F, float constant) { return set1(constant); }
template <int kBits>
HOST_DEVICE F shift_bits(F a) {
  EACH_PART(F, (Floats4)((Bits4)a.part[p] << kBits));
}
HOST_DEVICE F shift_to_exponent(F a) { return shift_bits<23>(a); }
HOST_DEVICE I bits_above(F a, float base) {
  const uint32_t bits = float_bits(base);
  EACH_PART(I, (Ints4)((Bits4)a.part[p] - Bits4{bits, bits, bits, bits}));
}

// The larger of the two; b where a is NaN.
HOST_DEVICE F larger(F a, F b) { EACH_PART(F, a.part[p] > b.part[p] ? a.part[p] : b.part[p]); }

// The smaller of the two; b where either is NaN.
HOST_DEVICE F smaller(F a, F b) { EACH_PART(F, a.part[p] < b.part[p] ? a.part[p] : b.part[p]); }

// Each integer in float32, rounded to nearest.
HOST_DEVICE F to_float(I a) { EACH_PART(F, __builtin_convertvector(a.part[p], Floats4)); }

// ---- 64-bit lanes ----

HOST_DEVICE Q set1_wide(uint64_t x) { EACH_PART(Q, (Words2{x, x})); }

// first, first + 1, ... first + 7
HOST_DEVICE Q count_from(uint64_t first) {
  EACH_PART(Q, (Words2{first + 2 * uint64_t(p), first + 2 * uint64_t(p) + 1}));
}

// The 64-bit product of the lower halves.
HOST_DEVICE Q multiply_low(Q a, Q b) {
  EACH_PART(Q, (a.part[p] & 0xffffffffu) * (b.part[p] & 0xffffffffu));
}
HOST_DEVICE Q exclusive_or(Q a, Q b) { EACH_PART(Q, a.part[p] ^ b.part[p]); }
HOST_DEVICE Q to_lower_half(Q a) { EACH_PART(Q, a.part[p] >> 32); }  // the upper becomes 0
HOST_DEVICE Q to_upper_half(Q a) { EACH_PART(Q, a.part[p] << 32); }  // the lower becomes 0

#undef EACH_PART

// Lanes 0 to 7 and 8 to 15 of `a`, zero-extended.
HOST_DEVICE void to_wide(I a, Q& first, Q& second) {
  uint32_t from[kLanes];
  std::memcpy(from, &a, sizeof a);
  uint64_t to[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = from[lane];
  std::memcpy(&first, to, sizeof first);
  std::memcpy(&second, to + kLanes / 2, sizeof second);
}

// The upper halves without their lowest bit, upper >> 1, of 16 lanes: never negative.
HOST_DEVICE I upper_halves(Q first, Q second) {
  uint64_t from[kLanes];
  store(from, first);
  store(from + kLanes / 2, second);
  int32_t to[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = int32_t(from[lane] >> 33);
  return load(to);
}

// Bit i is set where byte i of the 64 is 0; byte 0 is the lowest of lane 0.
HOST_DEVICE uint64_t zero_bytes(Q a) {
  uint8_t bytes[64];
  std::memcpy(bytes, &a, sizeof a);
  uint64_t mask = 0;
  for (int i = 0; i < 64; ++i) mask |= uint64_t(bytes[i] == 0) << i;
  return mask;
}

HOST_DEVICE Doubles2 half_of(Floats4 x, int half) {
  const Floats2 pair =
      half ? __builtin_shufflevector(x, x, 2, 3) : __builtin_shufflevector(x, x, 0, 1);
  return __builtin_convertvector(pair, Doubles2);
}

// ---- Fused multiply-add ----

HOST_DEVICE F fma_by_lane(const F& a, const F& b, F c) {
  for (int p = 0; p < 4; ++p) {
    for (int i = 0; i < 4; ++i) {
      c.part[p][i] = __builtin_fmaf(a.part[p][i], b.part[p][i], c.part[p][i]);
    }
  }
  return c;
}

// multiply_add: a * b + c, of which the product may be rounded before, where that is quicker.
#if defined(__FP_FAST_FMAF)
HOST_DEVICE F fma(F a, F b, F c) { return fma_by_lane(a, b, c); }
HOST_DEVICE F multiply_add(F a, F b, F c) { return fma(a, b, c); }
#else
HOST_DEVICE F multiply_add(F a, F b, F c) { return add(mul(a, b), c); }

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

// ---- Comparisons: false where either is NaN. Masks have bit i for lane i ----

HOST_DEVICE uint32_t mask_ge(F a, F b) {
  uint32_t mask = 0;
  for (int p = 0; p < 4; ++p) {
    const Ints4 hit = (a.part[p] >= b.part[p]) & Ints4{1, 2, 4, 8};
    mask |= uint32_t(hit[0] | hit[1] | hit[2] | hit[3]) << (4 * p);
  }
  return mask;
}

HOST_DEVICE uint32_t mask_gt(F a, F b) {
  uint32_t mask = 0;
  for (int p = 0; p < 4; ++p) {
    const Ints4 hit = (a.part[p] > b.part[p]) & Ints4{1, 2, 4, 8};
    mask |= uint32_t(hit[0] | hit[1] | hit[2] | hit[3]) << (4 * p);
  }
  return mask;
}

// value in the lanes where a >= b, or a > b, and 0 elsewhere.
HOST_DEVICE I where_ge(F a, F b, I value) {
  for (int p = 0; p < 4; ++p) value.part[p] &= a.part[p] >= b.part[p];
  return value;
}
// `yes` in the lanes where a > b, `no` elsewhere.
HOST_DEVICE F choose_gt(F a, F b, F yes, F no) {
  for (int p = 0; p < 4; ++p) no.part[p] = a.part[p] > b.part[p] ? yes.part[p] : no.part[p];
  return no;
}

HOST_DEVICE bool any_ge(F a, F b) {
  Ints4 hit = a.part[0] >= b.part[0];
  for (int p = 1; p < 4; ++p) hit |= a.part[p] >= b.part[p];
  int64_t halves[2];
  std::memcpy(halves, &hit, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}

// ---- Across lanes ----

// Stores the lanes of `mask`, packed in their order; what follows them up to 16 elements is
// overwritten. Returns how many there are.
HOST_DEVICE int store_packed(float* to, F a, uint32_t mask) {
  float lanes[kLanes];
  store(lanes, a);
  int count = 0;
  for (; mask; mask &= mask - 1) to[count++] = lanes[__builtin_ctz(mask)];
  return count;
}

// The largest lane; requires no NaN.
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

// In no stated order.
HOST_DEVICE float rough_sum_of(F a) {
  float lanes[kLanes], sum = 0.0f;
  store(lanes, a);
  for (float lane : lanes) sum += lane;
  return sum;
}
HOST_DEVICE double rough_sum_of(D a) {
  const Doubles2 two = (a.part[0] + a.part[1]) + (a.part[2] + a.part[3]);
  return two[0] + two[1];
}

// Adds lanes i and i + 8 of `a`, in float32, to lane i of the sum.
HOST_DEVICE D add_halves(D sum, F a) {
  for (int p = 0; p < 4; ++p) {
    sum.part[p] += half_of(a.part[p / 2] + a.part[p / 2 + 2], p % 2);
  }
  return sum;
}

}  // namespace
}  // namespace spec_decode_ops
