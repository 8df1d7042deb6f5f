// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary (defined in vec_generic.h) for AVX-512 F, BW and DQ: each type is one
// register.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "common/dtype.h"
#include "cpu/vec_float32.h"
#include "cpu/workspace.h"

namespace spec_decode_ops {
namespace {

struct F {
  __m512 lanes;
};
struct I {
  __m512i lanes;
};
struct Q {
  __m512i lanes;
};
struct D {
  __m512d lanes;
};

// ---- Memory ----

HOST_DEVICE __m256i load_half_bits(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
HOST_DEVICE F load(const float* from) { return {_mm512_loadu_ps(from)}; }
HOST_DEVICE I load(const int32_t* from) { return {_mm512_loadu_si512(from)}; }
HOST_DEVICE void store(float* to, F a) { _mm512_storeu_ps(to, a.lanes); }
HOST_DEVICE void store(int32_t* to, I a) { _mm512_storeu_si512(to, a.lanes); }
HOST_DEVICE void store(uint64_t* to, Q a) { _mm512_storeu_si512(to, a.lanes); }
// Each element moves above 16 zero bits.
HOST_DEVICE F load(const BFloat16* from) {
  const __m512i order = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0,
                                         6, 0, 5, 0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0);
  const __m512i bits = _mm512_castsi256_si512(load_half_bits(from));
  return {_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, order, bits))};
}
HOST_DEVICE F load(const Half* from) { return {_mm512_cvtph_ps(load_half_bits(from))}; }

// ---- Arithmetic ----

HOST_DEVICE F set1(float x) { return {_mm512_set1_ps(x)}; }
HOST_DEVICE I set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
HOST_DEVICE F fill(F, float constant) { return set1(constant); }

HOST_DEVICE F add(F a, F b) { return {_mm512_add_ps(a.lanes, b.lanes)}; }
HOST_DEVICE F sub(F a, F b) { return {_mm512_sub_ps(a.lanes, b.lanes)}; }
HOST_DEVICE F mul(F a, F b) { return {_mm512_mul_ps(a.lanes, b.lanes)}; }
HOST_DEVICE F div(F a, F b) { return {_mm512_div_ps(a.lanes, b.lanes)}; }
HOST_DEVICE F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.lanes, b.lanes, c.lanes)}; }
HOST_DEVICE F multiply_add(F a, F b, F c) { return fma(a, b, c); }
// The instructions give their second operand where either is NaN.
HOST_DEVICE F larger(F a, F b) { return {_mm512_max_ps(a.lanes, b.lanes)}; }
HOST_DEVICE F smaller(F a, F b) { return {_mm512_min_ps(a.lanes, b.lanes)}; }
HOST_DEVICE I add(I a, I b) { return {_mm512_add_epi32(a.lanes, b.lanes)}; }
HOST_DEVICE I sub(I a, I b) { return {_mm512_sub_epi32(a.lanes, b.lanes)}; }
template <int kBits>
HOST_DEVICE F shift_bits(F a) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a.lanes), kBits))};
}
HOST_DEVICE F shift_to_exponent(F a) { return shift_bits<23>(a); }
HOST_DEVICE I bits_above(F a, float base) {
  const __m512i from = _mm512_castps_si512(_mm512_set1_ps(base));
  return {_mm512_sub_epi32(_mm512_castps_si512(a.lanes), from)};
}
HOST_DEVICE F to_float(I a) { return {_mm512_cvtepi32_ps(a.lanes)}; }

// ---- 64-bit lanes ----

HOST_DEVICE Q set1_wide(uint64_t x) { return {_mm512_set1_epi64(int64_t(x))}; }
HOST_DEVICE Q count_from(uint64_t first) {
  const __m512i start = _mm512_set1_epi64(int64_t(first));
  return {_mm512_add_epi64(start, _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7))};
}
HOST_DEVICE Q multiply_low(Q a, Q b) { return {_mm512_mul_epu32(a.lanes, b.lanes)}; }
HOST_DEVICE Q exclusive_or(Q a, Q b) { return {_mm512_xor_si512(a.lanes, b.lanes)}; }
HOST_DEVICE Q to_lower_half(Q a) { return {_mm512_srli_epi64(a.lanes, 32)}; }
HOST_DEVICE Q to_upper_half(Q a) { return {_mm512_slli_epi64(a.lanes, 32)}; }
HOST_DEVICE void to_wide(I a, Q& first, Q& second) {
  first = {_mm512_cvtepu32_epi64(_mm512_castsi512_si256(a.lanes))};
  second = {_mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(a.lanes, 1))};
}
HOST_DEVICE I upper_halves(Q first, Q second) {
  const __m256i low = _mm512_cvtepi64_epi32(_mm512_srli_epi64(first.lanes, 33));
  const __m256i high = _mm512_cvtepi64_epi32(_mm512_srli_epi64(second.lanes, 33));
  return {_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
}
HOST_DEVICE uint64_t zero_bytes(Q a) { return _mm512_testn_epi8_mask(a.lanes, a.lanes); }

// ---- Comparisons ----

HOST_DEVICE uint32_t mask_ge(F a, F b) { return _mm512_cmp_ps_mask(a.lanes, b.lanes, _CMP_GE_OQ); }
HOST_DEVICE uint32_t mask_gt(F a, F b) { return _mm512_cmp_ps_mask(a.lanes, b.lanes, _CMP_GT_OQ); }
HOST_DEVICE I where_ge(F a, F b, I value) {
  return {_mm512_maskz_mov_epi32(__mmask16(mask_ge(a, b)), value.lanes)};
}
HOST_DEVICE F choose_gt(F a, F b, F yes, F no) {
  return {_mm512_mask_mov_ps(no.lanes, __mmask16(mask_gt(a, b)), yes.lanes)};
}
HOST_DEVICE bool any_ge(F a, F b) { return mask_ge(a, b) != 0; }

// ---- Across lanes ----

HOST_DEVICE int store_packed(float* to, F a, uint32_t mask) {
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(__mmask16(mask), a.lanes));
  return __builtin_popcount(mask);
}
HOST_DEVICE float max_of(F a) { return _mm512_reduce_max_ps(a.lanes); }
HOST_DEVICE int64_t sum_of(I a) {
  const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(a.lanes));
  const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(a.lanes, 1));
  return _mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}
HOST_DEVICE float rough_sum_of(F a) { return _mm512_reduce_add_ps(a.lanes); }
HOST_DEVICE D add_halves(D sum, F a) {
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(a.lanes), _mm512_extractf32x8_ps(a.lanes, 1));
  return {_mm512_add_pd(sum.lanes, _mm512_cvtps_pd(eight))};
}
HOST_DEVICE double rough_sum_of(D a) { return _mm512_reduce_add_pd(a.lanes); }

}  // namespace
}  // namespace spec_decode_ops
