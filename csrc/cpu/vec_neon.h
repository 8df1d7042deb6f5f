// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary (defined in vec_generic.h) for NEON, which every aarch64 machine has: each
// type is four registers.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "common/dtype.h"
#include "cpu/vec_float32.h"
#include "cpu/workspace.h"

namespace spec_decode_ops {
namespace {

struct F {
  float32x4_t part[4];
};
struct I {
  int32x4_t part[4];
};
struct Q {
  uint64x2_t part[4];
};
struct D {
  float64x2_t part[4];
};

#define EACH_PART(Result, ...)                                \
  Result result;                                              \
  for (int p = 0; p < 4; ++p) result.part[p] = (__VA_ARGS__); \
  return result

// ---- Memory ----

HOST_DEVICE F load(const float* from) { EACH_PART(F, vld1q_f32(from + 4 * p)); }
HOST_DEVICE I load(const int32_t* from) { EACH_PART(I, vld1q_s32(from + 4 * p)); }
HOST_DEVICE void store(float* to, F a) {
  for (int p = 0; p < 4; ++p) vst1q_f32(to + 4 * p, a.part[p]);
}
HOST_DEVICE void store(int32_t* to, I a) {
  for (int p = 0; p < 4; ++p) vst1q_s32(to + 4 * p, a.part[p]);
}
HOST_DEVICE void store(uint64_t* to, Q a) {
  for (int p = 0; p < 4; ++p) vst1q_u64(to + 2 * p, a.part[p]);
}

HOST_DEVICE uint16x8_t load_bits(const void* from) {
  return vreinterpretq_u16_u8(vld1q_u8(static_cast<const uint8_t*>(from)));
}
HOST_DEVICE float32x4_t widen_bfloat16(uint32x4_t shifted) {
  return vreinterpretq_f32_u32(shifted);
}
HOST_DEVICE F load(const BFloat16* from) {
  const uint16x8_t low = load_bits(from), high = load_bits(from + 8);
  return {widen_bfloat16(vshll_n_u16(vget_low_u16(low), 16)),
          widen_bfloat16(vshll_high_n_u16(low, 16)),
          widen_bfloat16(vshll_n_u16(vget_low_u16(high), 16)),
          widen_bfloat16(vshll_high_n_u16(high, 16))};
}
HOST_DEVICE F load(const Half* from) {
  const float16x8_t low = vreinterpretq_f16_u16(load_bits(from));
  const float16x8_t high = vreinterpretq_f16_u16(load_bits(from + 8));
  return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
          vcvt_high_f32_f16(high)};
}

// ---- Arithmetic ----

HOST_DEVICE F set1(float x) { EACH_PART(F, vdupq_n_f32(x)); }
HOST_DEVICE I set1(int32_t x) { EACH_PART(I, vdupq_n_s32(x)); }
HOST_DEVICE F fill(F, float constant) { return set1(constant); }

HOST_DEVICE F add(F a, F b) { EACH_PART(F, vaddq_f32(a.part[p], b.part[p])); }
HOST_DEVICE F sub(F a, F b) { EACH_PART(F, vsubq_f32(a.part[p], b.part[p])); }
HOST_DEVICE F mul(F a, F b) { EACH_PART(F, vmulq_f32(a.part[p], b.part[p])); }
HOST_DEVICE F div(F a, F b) { EACH_PART(F, vdivq_f32(a.part[p], b.part[p])); }
HOST_DEVICE F fma(F a, F b, F c) { EACH_PART(F, vfmaq_f32(c.part[p], a.part[p], b.part[p])); }
HOST_DEVICE F multiply_add(F a, F b, F c) { return fma(a, b, c); }
// The maximum of NaN and a number is the number, but only of a quiet NaN; the inner one makes it
// so. Of two zeros it is +0, which no kernel tells from -0.
HOST_DEVICE F larger(F a, F b) {
  const float32x4_t least = vdupq_n_f32(-kInfinity);
  EACH_PART(F, vmaxnmq_f32(vmaxq_f32(a.part[p], least), b.part[p]));
}
HOST_DEVICE F smaller(F a, F b) {
  EACH_PART(F, vbslq_f32(vcltq_f32(a.part[p], b.part[p]), a.part[p], b.part[p]));
}
HOST_DEVICE I add(I a, I b) { EACH_PART(I, vaddq_s32(a.part[p], b.part[p])); }
HOST_DEVICE I sub(I a, I b) { EACH_PART(I, vsubq_s32(a.part[p], b.part[p])); }
template <int kBits>
HOST_DEVICE F shift_bits(F a) {
  EACH_PART(F, vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(a.part[p]), kBits)));
}
HOST_DEVICE F shift_to_exponent(F a) { return shift_bits<23>(a); }
HOST_DEVICE I bits_above(F a, float base) {
  const int32x4_t from = vreinterpretq_s32_f32(vdupq_n_f32(base));
  EACH_PART(I, vsubq_s32(vreinterpretq_s32_f32(a.part[p]), from));
}
HOST_DEVICE F to_float(I a) { EACH_PART(F, vcvtq_f32_s32(a.part[p])); }

// ---- 64-bit lanes ----

HOST_DEVICE Q set1_wide(uint64_t x) { EACH_PART(Q, vdupq_n_u64(x)); }
HOST_DEVICE Q count_from(uint64_t first) {
  EACH_PART(Q, (uint64x2_t{first + 2 * uint64_t(p), first + 2 * uint64_t(p) + 1}));
}
HOST_DEVICE uint32x4_t lower_halves_of_4(uint64x2_t a, uint64x2_t b) {
  return vuzp1q_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b));
}
HOST_DEVICE uint32x4_t upper_halves_of_4(uint64x2_t a, uint64x2_t b) {
  return vuzp2q_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b));
}
HOST_DEVICE Q multiply_low(Q a, Q b) {
  Q result;
  for (int p = 0; p < 4; p += 2) {
    const uint32x4_t left = lower_halves_of_4(a.part[p], a.part[p + 1]);
    const uint32x4_t right = lower_halves_of_4(b.part[p], b.part[p + 1]);
    result.part[p] = vmull_u32(vget_low_u32(left), vget_low_u32(right));
    result.part[p + 1] = vmull_high_u32(left, right);
  }
  return result;
}
HOST_DEVICE Q exclusive_or(Q a, Q b) { EACH_PART(Q, veorq_u64(a.part[p], b.part[p])); }
HOST_DEVICE Q to_lower_half(Q a) { EACH_PART(Q, vshrq_n_u64(a.part[p], 32)); }
HOST_DEVICE Q to_upper_half(Q a) { EACH_PART(Q, vshlq_n_u64(a.part[p], 32)); }
HOST_DEVICE Q to_wide_8(int32x4_t low, int32x4_t high) {
  const uint32x4_t a = vreinterpretq_u32_s32(low), b = vreinterpretq_u32_s32(high);
  return {vmovl_u32(vget_low_u32(a)), vmovl_high_u32(a), vmovl_u32(vget_low_u32(b)),
          vmovl_high_u32(b)};
}
HOST_DEVICE void to_wide(I a, Q& first, Q& second) {
  first = to_wide_8(a.part[0], a.part[1]);
  second = to_wide_8(a.part[2], a.part[3]);
}
HOST_DEVICE I upper_halves(Q first, Q second) {
  I result;
  for (int p = 0; p < 4; p += 2) {
    const uint32x4_t low = upper_halves_of_4(first.part[p], first.part[p + 1]);
    const uint32x4_t high = upper_halves_of_4(second.part[p], second.part[p + 1]);
    result.part[p / 2] = vreinterpretq_s32_u32(vshrq_n_u32(low, 1));
    result.part[2 + p / 2] = vreinterpretq_s32_u32(vshrq_n_u32(high, 1));
  }
  return result;
}

// ---- Comparisons ----

// One bit a byte of four registers, each byte 0 or 255: sums of bits that differ are their union.
HOST_DEVICE uint8x16_t named_bits(uint8x16_t bytes) {
  constexpr uint8x16_t kBit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  return vandq_u8(bytes, kBit);
}
HOST_DEVICE uint64_t zero_bytes(Q a) {
  uint8x16_t bits[4];
  for (int p = 0; p < 4; ++p) bits[p] = named_bits(vceqzq_u8(vreinterpretq_u8_u64(a.part[p])));
  const uint8x16_t sums = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}

struct Hits {
  uint32x4_t part[4];
};
HOST_DEVICE Hits ge(F a, F b) { EACH_PART(Hits, vcgeq_f32(a.part[p], b.part[p])); }
HOST_DEVICE Hits gt(F a, F b) { EACH_PART(Hits, vcgtq_f32(a.part[p], b.part[p])); }

HOST_DEVICE uint32_t lanes_of(Hits hits) {
  const auto narrow = [](uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u8_u16(vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)));
  };
  const uint8x16_t low = narrow(hits.part[0], hits.part[1]);
  const uint8x16_t high = narrow(hits.part[2], hits.part[3]);
  uint8x16_t sums = named_bits(vuzp1q_u8(low, high));
  for (int i = 0; i < 3; ++i) sums = vpaddq_u8(sums, sums);
  return vgetq_lane_u16(vreinterpretq_u16_u8(sums), 0);
}
HOST_DEVICE uint32_t mask_ge(F a, F b) { return lanes_of(ge(a, b)); }
HOST_DEVICE uint32_t mask_gt(F a, F b) { return lanes_of(gt(a, b)); }
HOST_DEVICE I where(Hits hits, I value) {
  EACH_PART(I, vandq_s32(value.part[p], vreinterpretq_s32_u32(hits.part[p])));
}
HOST_DEVICE I where_ge(F a, F b, I value) { return where(ge(a, b), value); }
HOST_DEVICE F choose_gt(F a, F b, F yes, F no) {
  EACH_PART(F, vbslq_f32(vcgtq_f32(a.part[p], b.part[p]), yes.part[p], no.part[p]));
}
HOST_DEVICE bool any_ge(F a, F b) {
  const Hits hits = ge(a, b);
  const uint32x4_t any =
      vorrq_u32(vorrq_u32(hits.part[0], hits.part[1]), vorrq_u32(hits.part[2], hits.part[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u32(vpmaxq_u32(any, any)), 0) != 0;
}

#undef EACH_PART

// ---- Across lanes ----

// For each mask of 4 lanes the bytes of the lanes it names, then whatever; and how many those are.
struct PackingOrders {
  alignas(16) uint8_t byte[16][16];
  int count[16];
};
constexpr PackingOrders packing_orders() {
  PackingOrders orders{};
  for (int mask = 0; mask < 16; ++mask) {
    for (int lane = 0; lane < 4; ++lane) {
      if (!(mask >> lane & 1)) continue;
      const int first = 4 * orders.count[mask]++;
      for (int b = 0; b < 4; ++b) orders.byte[mask][first + b] = uint8_t(4 * lane + b);
    }
  }
  return orders;
}
constexpr PackingOrders kPackingOrders = packing_orders();

HOST_DEVICE int store_packed(float* to, F a, uint32_t mask) {
  int count = 0;
  for (int p = 0; p < 4; ++p) {
    const uint32_t some = mask >> (4 * p) & 15;
    const uint8x16_t order = vld1q_u8(kPackingOrders.byte[some]);
    const uint8x16_t packed = vqtbl1q_u8(vreinterpretq_u8_f32(a.part[p]), order);
    vst1q_f32(to + count, vreinterpretq_f32_u8(packed));
    count += kPackingOrders.count[some];
  }
  return count;
}

HOST_DEVICE float max_of(F a) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.part[0], a.part[1]), vmaxq_f32(a.part[2], a.part[3])));
}
HOST_DEVICE int64_t sum_of(I a) {
  int64x2_t sums = vpaddlq_s32(a.part[0]);
  for (int p = 1; p < 4; ++p) sums = vpadalq_s32(sums, a.part[p]);
  return vaddvq_s64(sums);
}
HOST_DEVICE float rough_sum_of(F a) {
  return vaddvq_f32(vaddq_f32(vaddq_f32(a.part[0], a.part[1]), vaddq_f32(a.part[2], a.part[3])));
}
HOST_DEVICE D add_halves(D sum, F a) {
  for (int p = 0; p < 2; ++p) {
    const float32x4_t four = vaddq_f32(a.part[p], a.part[p + 2]);
    sum.part[2 * p] = vaddq_f64(sum.part[2 * p], vcvt_f64_f32(vget_low_f32(four)));
    sum.part[2 * p + 1] = vaddq_f64(sum.part[2 * p + 1], vcvt_high_f64_f32(four));
  }
  return sum;
}
HOST_DEVICE double rough_sum_of(D a) {
  return vaddvq_f64(vaddq_f64(vaddq_f64(a.part[0], a.part[1]), vaddq_f64(a.part[2], a.part[3])));
}

}  // namespace
}  // namespace spec_decode_ops
