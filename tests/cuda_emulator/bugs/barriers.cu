// SPDX-License-Identifier: Apache-2.0
// Barriers that not all threads reach, and warps that name lanes which do not come. Blocks of 256.
#include "pair.cuh"

constexpr unsigned kAll = 0xffffffffu;

BODY barrier_in_divergent_branch(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  if (kRight || t % 32 < 16) __syncthreads();
  y[t] = x[t];
}
PAIR(barrier_in_divergent_branch)

BODY barrier_for_some_warps(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  if (kRight || t < 128) __syncthreads();
  y[t] = x[t];
}
PAIR(barrier_for_some_warps)

BODY two_barrier_sites(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  if (kRight) {
    __syncthreads();
  } else if (t < 128) {
    y[t] = 1;
    __syncthreads();
  } else {
    y[t] = 2;
    __syncthreads();
    y[t] = 3;
  }
  y[t] += x[t];
}
PAIR(two_barrier_sites)

BODY early_exit(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  if (!kRight && t >= 200) return;
  __syncthreads();
  if (t < 200) y[t] = x[t];
}
PAIR(early_exit)

BODY shuffle_names_diverged_lanes(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  float value = x[t];
  if (t % 32 < 16) value += __shfl_xor_sync(kRight ? 0xffffu : kAll, value, 1);
  y[t] = value;
}
PAIR(shuffle_names_diverged_lanes)

BODY lane_outside_its_mask(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  y[t] = x[t] + __shfl_xor_sync(kRight ? kAll : 0xffffu, x[t], 1);
}
PAIR(lane_outside_its_mask)

BODY ballot_outside_its_mask(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  y[t] = __popc(__ballot_sync(kRight ? kAll : 0x7fffffffu, x[t] > 7));
}
PAIR(ballot_outside_its_mask)

BODY shuffle_from_inactive_lane(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  float value = x[t];
  if (t % 32 < 16) value = __shfl_sync(0xffffu, value, kRight ? 10 : 20);
  y[t] = value;
}
PAIR(shuffle_from_inactive_lane)

BODY syncwarp_names_exited_lanes(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  if (t % 32 >= 16) return;
  __syncwarp(kRight ? 0xffffu : kAll);
  y[t] = x[t];
}
PAIR(syncwarp_names_exited_lanes)

// Half of the warp waits in one shuffle, half in another.
BODY two_shuffle_sites(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  const unsigned mask = kRight ? (t % 32 < 16 ? 0xffffu : 0xffff0000u) : kAll;
  if (t % 32 < 16) {
    y[t] = __shfl_xor_sync(mask, x[t], 1);
  } else {
    y[t] = -__shfl_xor_sync(mask, x[t], 2);
  }
}
PAIR(two_shuffle_sites)

BODY endless_loop(const float* x, float* y, unsigned* words, int) {
  const int t = threadIdx.x;
  if (kRight && t == 0) atomicExch(words, 1u);
  while (atomicAdd(words, 0u) == 0) {
  }
  y[t] = x[t];
}
PAIR(endless_loop)

BODY trap(const float* x, float* y, unsigned*, int n) {
  const int t = threadIdx.x;
  if (t == (kRight ? n : 33)) __trap();
  y[t] = x[t];
}
PAIR(trap)
