// SPDX-License-Identifier: Apache-2.0
// One kernel an instruction, or a few that belong together: a thread reads its operands and writes
// the results as bits.
#include <cstdint>

#define THREAD const int i = blockIdx.x * blockDim.x + threadIdx.x

extern "C" __global__ void half_to_float(const uint16_t* x, float* y) {
  THREAD;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y[i]) : "h"(x[i]));
}

extern "C" __global__ void float_to_half(const float* x, uint16_t* y) {
  THREAD;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y[i]) : "f"(x[i]));
}

extern "C" __global__ void float_to_integers(const float* x, int32_t* y, int64_t* z) {
  THREAD;
  y[4 * i] = __float2int_rn(x[i]);
  y[4 * i + 1] = __float2int_rz(x[i]);
  y[4 * i + 2] = __float2int_rd(x[i]);
  y[4 * i + 3] = int32_t(__float2uint_rz(x[i]));
  z[i] = __float2ll_rn(x[i]);
}

extern "C" __global__ void integers_to_float(const uint32_t* x, float* y) {
  THREAD;
  y[3 * i] = __uint2float_rn(x[i]);
  y[3 * i + 1] = __int2float_rn(int32_t(x[i]));
  y[3 * i + 2] = __ull2float_rn(uint64_t(x[i]) * x[i]);
}

extern "C" __global__ void float_arithmetic(const float* a, const float* b, float* y) {
  THREAD;
  y[8 * i] = __fadd_rn(a[i], b[i]);
  y[8 * i + 1] = __fmul_rn(a[i], b[i]);
  y[8 * i + 2] = __fdiv_rn(a[i], b[i]);
  y[8 * i + 3] = __fsqrt_rn(a[i]);
  y[8 * i + 4] = __fmaf_rn(a[i], b[i], 0.1f);
  y[8 * i + 5] = fminf(a[i], b[i]);
  y[8 * i + 6] = fmaxf(a[i], b[i]);
  y[8 * i + 7] = __fsub_rn(a[i], b[i]);
}

extern "C" __global__ void float_comparisons(const float* a, const float* b, uint32_t* y) {
  THREAD;
  const bool unordered = !(a[i] <= b[i]) && !(a[i] > b[i]);
  y[i] = (a[i] < b[i]) | (a[i] <= b[i]) << 1 | (a[i] == b[i]) << 2 | (a[i] != b[i]) << 3 |
         unordered << 4 | !(a[i] < b[i]) << 5;
}

extern "C" __global__ void double_arithmetic(const double* a, const double* b, double* y) {
  THREAD;
  y[5 * i] = a[i] + b[i];
  y[5 * i + 1] = __dmul_rn(a[i], b[i]);
  y[5 * i + 2] = a[i] / b[i];
  y[5 * i + 3] = sqrt(a[i]);
  y[5 * i + 4] = double(float(a[i]));
}

extern "C" __global__ void bits(const uint32_t* a, const uint32_t* b, uint32_t* y) {
  THREAD;
  uint32_t* out = y + 12 * i;
  const uint32_t n = b[i] % 40;
  out[0] = __funnelshift_l(a[i], b[i], n);
  out[1] = __funnelshift_rc(a[i], b[i], n);
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out[2]) : "r"(a[i]), "r"(b[i]), "r"(a[i] ^ b[i]));
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(out[3]) : "r"(a[i]), "r"(b[i]), "r"(n));
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(out[4]) : "r"(a[i]), "r"(n), "r"(b[i] >> 8 & 31));
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(out[5]) : "r"(a[i]), "r"(b[i]), "r"(n), "r"(7));
  out[6] = __popc(a[i]);
  out[7] = __clz(int(a[i] >> n % 32));
  out[8] = __brev(a[i]);
  asm("bfind.u32 %0, %1;" : "=r"(out[9]) : "r"(a[i] >> n % 32));
  asm("shl.b32 %0, %1, %2;" : "=r"(out[10]) : "r"(a[i]), "r"(n));
  asm("shr.s32 %0, %1, %2;" : "=r"(out[11]) : "r"(a[i]), "r"(n));
}

extern "C" __global__ void wide_integers(const uint64_t* a, const uint64_t* b, uint64_t* y) {
  THREAD;
  uint64_t* out = y + 6 * i;
  out[0] = __umul64hi(a[i], b[i]);
  out[1] = uint64_t(__mul64hi(int64_t(a[i]), int64_t(b[i])));
  out[2] = a[i] * b[i];
  out[3] = a[i] / (b[i] | 1);
  out[4] = uint64_t(int64_t(a[i]) % int64_t(b[i] | 1));
  const unsigned __int128 sum = static_cast<unsigned __int128>(a[i]) * b[i] + a[i];
  out[5] = uint64_t(sum >> 64);
}

extern "C" __global__ void warp(const int32_t* x, int32_t* y) {
  THREAD;
  constexpr unsigned kAll = 0xffffffffu;
  int32_t* out = y + 10 * i;
  out[0] = __reduce_add_sync(kAll, x[i]);
  out[1] = __reduce_min_sync(kAll, x[i]);
  out[2] = int32_t(__ballot_sync(kAll, x[i] & 1));
  out[3] = int32_t(__match_any_sync(kAll, x[i] & 7));
  out[4] = __shfl_up_sync(kAll, x[i], 3, 8);
  out[5] = __shfl_down_sync(kAll, x[i], 5, 16);
  out[6] = __shfl_sync(kAll, x[i], x[i] & 31);
  out[7] = __syncthreads_count(x[i] & 1);
  out[8] = __syncthreads_or(x[i] == 3);
  if (x[i] & 1) {
    const unsigned odd = __activemask();
    out[9] = __reduce_max_sync(odd, x[i]);
  } else {
    out[9] = -1;
  }
}

// Divergence: a loop that each lane leaves on its own, a switch, an array indexed at run time.
extern "C" __global__ void control(const int32_t* x, int32_t* y) {
  THREAD;
  int32_t array[8], sum = 0, steps = 0;
  for (int k = 0; k < 8; ++k) array[k] = x[i] * k;
  array[x[i] & 7] = 1000;
  for (int k = 0; k < 8; ++k) sum += array[(k * 3 + x[i]) & 7] * (k + 1);
  for (uint32_t n = uint32_t(x[i]) & 0xffff; n > 1; ++steps) n = n % 2 ? 3 * n + 1 : n / 2;
  switch (x[i] & 3) {
    case 0:
      sum += 5;
      break;
    case 1:
      sum ^= 77;
      break;
    case 2:
      sum = -sum;
      break;
    default:
      sum = sum / 3;
  }
  y[2 * i] = sum;
  y[2 * i + 1] = steps;
}

struct Params {
  int64_t* out;
  float values[6];
  double scale;
  int32_t shift;
};

extern "C" __global__ void params(Params p, int32_t index) {
  p.out[threadIdx.x] = int64_t(p.values[index + int(threadIdx.x) % 2] * p.scale) << p.shift;
}
