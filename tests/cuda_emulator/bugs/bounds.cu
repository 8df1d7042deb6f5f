// SPDX-License-Identifier: Apache-2.0
// Addresses that are not the kernel's to touch. One block of 256; x and y have 256 floats.
#include "pair.cuh"

BODY read_past_global(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  y[t] = x[kRight ? t : t + 1];
}
PAIR(read_past_global)

BODY write_before_global(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  y[kRight ? t : t - 1] = x[t];
}
PAIR(write_before_global)

BODY write_past_dynamic_shared(const float* x, float* y, unsigned*, int) {
  extern __shared__ float dynamic[];
  const int t = threadIdx.x;
  dynamic[kRight ? t : t + 1] = x[t];
  __syncthreads();
  y[t] = dynamic[kRight ? t : t + 1];
}
PAIR(write_past_dynamic_shared)

BODY overrun_into_next_array(const float* x, float* y, unsigned*, int) {
  __shared__ float first[256], second[256];
  const int t = threadIdx.x;
  second[t] = 0;
  __syncthreads();
  first[kRight ? t : t + 1] = x[t];
  __syncthreads();
  y[t] = first[t ^ 1] + second[t ^ 1];
}
PAIR(overrun_into_next_array)

BODY misaligned_global(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  if (t >= 63) return;
  const float4 four = reinterpret_cast<const float4*>(x + (kRight ? 0 : 1))[t];
  y[t] = four.x + four.y + four.z + four.w;
}
PAIR(misaligned_global)

BODY misaligned_shared(const float* x, float* y, unsigned*, int) {
  __shared__ __align__(16) float shared[256];
  const int t = threadIdx.x;
  shared[t] = x[t];
  __syncthreads();
  if (t >= 63) return;
  const float2 two = reinterpret_cast<const float2*>(shared + (kRight ? 0 : 1))[t];
  y[t] = two.x + two.y;
}
PAIR(misaligned_shared)

// x is marked read-only.
BODY write_to_input(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  (kRight ? y : const_cast<float*>(x))[t] = x[t] + 1;
}
PAIR(write_to_input)

BODY read_uninitialized_shared(const float* x, float* y, unsigned*, int) {
  extern __shared__ float dynamic[];
  const int t = threadIdx.x;
  if (kRight || t < 255) dynamic[t] = x[t];
  __syncthreads();
  y[t] = dynamic[255 - t];
}
PAIR(read_uninitialized_shared)

// y is marked undefined.
BODY read_undefined_workspace(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  if (kRight || t != 77) y[t] = x[t];
  __syncthreads();
  if (t == 0) y[0] = y[77];
}
PAIR(read_undefined_workspace)
