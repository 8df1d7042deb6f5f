// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary (defined in vec_generic.h) for AVX2 with FMA and F16C: each type is two
// registers.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "common/dtype.h"
#include "cpu/vec_float32.h"
#include "cpu/workspace.h"

namespace spec_decode_ops {
namespace {

struct F {
  __m256 low, high;
};
struct I {
  __m256i low, high;
};
struct Q {
  __m256i low, high;
};
struct D {
  __m256d low, high;
};

// ---- Memory ----

HOST_DEVICE __m256i load_bits(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
HOST_DEVICE __m128i load_half_bits(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
HOST_DEVICE void store_bits(void* to, __m256i low, __m256i high) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), low);
  _mm256_storeu_si256(static_cast<__m256i*>(to) + 1, high);
}

HOST_DEVICE F load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
HOST_DEVICE I load(const int32_t* from) { return {load_bits(from), load_bits(from + 8)}; }
HOST_DEVICE void store(float* to, F a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
HOST_DEVICE void store(int32_t* to, I a) { store_bits(to, a.low, a.high); }
HOST_DEVICE void store(uint64_t* to, Q a) { store_bits(to, a.low, a.high); }

// A register's halves are unpacked by themselves.
HOST_DEVICE F unpack_with_zeros(__m256i bits) {
  const __m256i zero = _mm256_setzero_si256();
  return {_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, bits)),
          _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, bits))};
}
// Of the quarters 0, 2, 1, 3.
HOST_DEVICE F load(const BFloat16* from) {
  return unpack_with_zeros(_mm256_permute4x64_epi64(load_bits(from), 0xd8));
}
// The quarters 0, 2, 1, 3.
HOST_DEVICE F load_in_any_order(const BFloat16* from) { return unpack_with_zeros(load_bits(from)); }
HOST_DEVICE F in_order(const BFloat16*, F a) {
  return {_mm256_permute2f128_ps(a.low, a.high, 0x20), _mm256_permute2f128_ps(a.low, a.high, 0x31)};
}
HOST_DEVICE __m256 widen_8(const Half* from) { return _mm256_cvtph_ps(load_half_bits(from)); }
HOST_DEVICE F load(const Half* from) { return {widen_8(from), widen_8(from + 8)}; }

// ---- Arithmetic ----

HOST_DEVICE F set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
HOST_DEVICE I set1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
HOST_DEVICE F fill(F, float constant) { return set1(constant); }

HOST_DEVICE F add(F a, F b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
HOST_DEVICE F sub(F a, F b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
HOST_DEVICE F mul(F a, F b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
HOST_DEVICE F div(F a, F b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
HOST_DEVICE F fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
HOST_DEVICE F multiply_add(F a, F b, F c) { return fma(a, b, c); }
// The instructions give their second operand where either is NaN.
HOST_DEVICE F larger(F a, F b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
HOST_DEVICE F smaller(F a, F b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
HOST_DEVICE I add(I a, I b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
HOST_DEVICE I sub(I a, I b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
HOST_DEVICE I bits_of(F a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
HOST_DEVICE F floats_of(I a) { return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)}; }
template <int kBits>
HOST_DEVICE F shift_bits(F a) {
  const I bits = bits_of(a);
  return floats_of({_mm256_slli_epi32(bits.low, kBits), _mm256_slli_epi32(bits.high, kBits)});
}
HOST_DEVICE F shift_to_exponent(F a) { return shift_bits<23>(a); }
HOST_DEVICE I bits_above(F a, float base) { return sub(bits_of(a), bits_of(set1(base))); }
HOST_DEVICE F to_float(I a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

// ---- 64-bit lanes ----

HOST_DEVICE Q set1_wide(uint64_t x) {
  return {_mm256_set1_epi64x(int64_t(x)), _mm256_set1_epi64x(int64_t(x))};
}
HOST_DEVICE Q count_from(uint64_t first) {
  const __m256i start = _mm256_set1_epi64x(int64_t(first));
  return {_mm256_add_epi64(start, _mm256_setr_epi64x(0, 1, 2, 3)),
          _mm256_add_epi64(start, _mm256_setr_epi64x(4, 5, 6, 7))};
}
HOST_DEVICE Q multiply_low(Q a, Q b) {
  return {_mm256_mul_epu32(a.low, b.low), _mm256_mul_epu32(a.high, b.high)};
}
HOST_DEVICE Q exclusive_or(Q a, Q b) {
  return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}
HOST_DEVICE Q to_lower_half(Q a) {
  return {_mm256_srli_epi64(a.low, 32), _mm256_srli_epi64(a.high, 32)};
}
HOST_DEVICE Q to_upper_half(Q a) {
  return {_mm256_slli_epi64(a.low, 32), _mm256_slli_epi64(a.high, 32)};
}
HOST_DEVICE Q to_wide_8(__m256i a) {
  return {_mm256_cvtepu32_epi64(_mm256_castsi256_si128(a)),
          _mm256_cvtepu32_epi64(_mm256_extracti128_si256(a, 1))};
}
HOST_DEVICE void to_wide(I a, Q& first, Q& second) {
  first = to_wide_8(a.low);
  second = to_wide_8(a.high);
}
HOST_DEVICE __m256i upper_halves_of_8(Q a) {
  const __m256 halves =
      _mm256_shuffle_ps(_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high), 0xdd);
  const __m256i ordered = _mm256_permute4x64_epi64(_mm256_castps_si256(halves), 0xd8);
  return _mm256_srli_epi32(ordered, 1);
}
HOST_DEVICE I upper_halves(Q first, Q second) {
  return {upper_halves_of_8(first), upper_halves_of_8(second)};
}
HOST_DEVICE uint64_t zero_bytes(Q a) {
  const __m256i zero = _mm256_setzero_si256();
  const uint32_t low = uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(a.low, zero)));
  const uint32_t high = uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(a.high, zero)));
  return low | uint64_t(high) << 32;
}

// ---- Comparisons ----

HOST_DEVICE uint32_t lanes_of(__m256 low, __m256 high) {
  return uint32_t(_mm256_movemask_ps(low)) | uint32_t(_mm256_movemask_ps(high)) << 8;
}
HOST_DEVICE F ge(F a, F b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_GE_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_GE_OQ)};
}
HOST_DEVICE F gt(F a, F b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ)};
}
HOST_DEVICE F both(F a, F b) {
  return {_mm256_and_ps(a.low, b.low), _mm256_and_ps(a.high, b.high)};
}

HOST_DEVICE uint32_t mask_ge(F a, F b) { return lanes_of(ge(a, b).low, ge(a, b).high); }
HOST_DEVICE uint32_t mask_gt(F a, F b) { return lanes_of(gt(a, b).low, gt(a, b).high); }
HOST_DEVICE I where_ge(F a, F b, I value) { return bits_of(both(ge(a, b), floats_of(value))); }
HOST_DEVICE F choose_gt(F a, F b, F yes, F no) {
  const F mask = gt(a, b);
  return {_mm256_blendv_ps(no.low, yes.low, mask.low),
          _mm256_blendv_ps(no.high, yes.high, mask.high)};
}
HOST_DEVICE bool any_ge(F a, F b) {
  return _mm256_movemask_ps(_mm256_or_ps(ge(a, b).low, ge(a, b).high)) != 0;
}

// ---- Across lanes ----

// For each mask of 8 lanes the lanes it names, then whatever.
struct PackingOrders {
  alignas(32) int32_t lane[256][8];
};
constexpr PackingOrders packing_orders() {
  PackingOrders orders{};
  for (int mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (int lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) orders.lane[mask][count++] = lane;
    }
  }
  return orders;
}
constexpr PackingOrders kPackingOrders = packing_orders();

HOST_DEVICE int store_packed_8(float* to, __m256 a, uint32_t mask) {
  const __m256i order = load_bits(kPackingOrders.lane[mask]);
  _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(a, order));
  return __builtin_popcount(mask);
}
HOST_DEVICE int store_packed(float* to, F a, uint32_t mask) {
  const int count = store_packed_8(to, a.low, mask & 0xff);
  return count + store_packed_8(to + count, a.high, mask >> 8);
}

HOST_DEVICE float max_of(F a) {
  const __m256 m = _mm256_max_ps(a.low, a.high);
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
HOST_DEVICE __m256i pair_sums(__m256i a) {
  return _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(a)),
                          _mm256_cvtepi32_epi64(_mm256_extracti128_si256(a, 1)));
}
HOST_DEVICE int64_t sum_of(I a) {
  const __m256i four = _mm256_add_epi64(pair_sums(a.low), pair_sums(a.high));
  const __m128i two =
      _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return _mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1);
}
HOST_DEVICE float rough_sum_of(F a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
HOST_DEVICE D add_halves(D sum, F a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  return {_mm256_add_pd(sum.low, _mm256_cvtps_pd(_mm256_castps256_ps128(eight))),
          _mm256_add_pd(sum.high, _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1)))};
}
HOST_DEVICE double rough_sum_of(D a) {
  const __m256d four = _mm256_add_pd(a.low, a.high);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
}  // namespace spec_decode_ops
