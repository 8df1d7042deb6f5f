// SPDX-License-Identifier: Apache-2.0
// Accesses that nothing orders. Blocks of 256; where it says so, four of them.
#include "pair.cuh"

BODY read_after_write(const float* x, float* y, unsigned*, int) {
  __shared__ float shared[256];
  const int t = threadIdx.x;
  shared[t] = 0;
  __syncthreads();
  shared[t] = x[t];
  if (kRight) __syncthreads();
  y[t] = shared[255 - t];
}
PAIR(read_after_write)

BODY write_after_read(const float* x, float* y, unsigned*, int) {
  __shared__ float shared[8];
  const int t = threadIdx.x;
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    if (t % 32 == 0) shared[t / 32] = x[t] + round;
    __syncthreads();
    for (int i = 0; i < 8; ++i) sum += shared[i];
    if (kRight) __syncthreads();
  }
  y[t] = sum;
}
PAIR(write_after_read)

BODY write_after_write(const float* x, float* y, unsigned*, int) {
  __shared__ float last;
  const int t = threadIdx.x;
  if (kRight ? t == 255 : t % 32 == 31) last = x[t];
  __syncthreads();
  y[t] = last;
}
PAIR(write_after_write)

BODY increment_without_atomic(const float*, float* y, unsigned*, int) {
  __shared__ int count;
  const int t = threadIdx.x;
  if (t == 0) count = 0;
  __syncthreads();
  if (kRight) {
    atomicAdd(&count, 1);
  } else if (t % 32 == 0) {
    count += 1;
  }
  __syncthreads();
  y[t] = count;
}
PAIR(increment_without_atomic)

BODY warp_without_syncwarp(const float* x, float* y, unsigned*, int) {
  __shared__ volatile float shared[256];
  const int t = threadIdx.x;
  shared[t] = x[t];
  __syncthreads();
  if (t < 32) {
    float sum = shared[t];
    for (int step = 16; step; step /= 2) {
      sum += shared[t + step];
      if (kRight) __syncwarp();
      shared[t] = sum;
      if (kRight) __syncwarp();
    }
  }
  __syncthreads();
  y[t] = shared[0];
}
PAIR(warp_without_syncwarp)

BODY bytes_side_by_side(const float* x, float* y, unsigned*, int) {
  __shared__ unsigned char shared[256];
  const int t = threadIdx.x;
  shared[kRight ? t : t & ~1] = static_cast<unsigned char>(x[t]);
  __syncthreads();
  y[t] = shared[t & ~1];
}
PAIR(bytes_side_by_side)

BODY global_without_barrier(const float* x, float* y, unsigned*, int) {
  const int t = threadIdx.x;
  y[t] = x[t];
  if (kRight) __syncthreads();
  const float other = y[255 - t];
  __syncthreads();
  y[t] += other;
}
PAIR(global_without_barrier)

// Four blocks: each has its slot.
BODY slot_of_another_block(const float* x, float* y, unsigned*, int) {
  const int slot = kRight ? blockIdx.x : blockIdx.x / 2;
  if (threadIdx.x == 0) y[slot] = x[slot];
}
PAIR(slot_of_another_block)

// Four blocks: read, then written by the next block, although seed 0 runs them one after another.
BODY reads_what_the_next_block_writes(const float*, float* y, unsigned*, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int other = kRight ? i : (i + blockDim.x) % (gridDim.x * blockDim.x);
  const float value = y[other];
  __syncthreads();
  y[i] = value + 1;
}
PAIR(reads_what_the_next_block_writes)

// Four blocks: 16-bit rows whose ends share a word.
BODY odd_rows_of_halves(const float*, float* y, unsigned*, int) {
  unsigned short* row = reinterpret_cast<unsigned short*>(y) + blockIdx.x * 101;
  const int columns = kRight ? 101 : 102;
  if (int(threadIdx.x) < columns) row[threadIdx.x] = 7;
}
PAIR(odd_rows_of_halves)

// Four blocks.
BODY counter_without_atomic(const float*, float*, unsigned* words, int) {
  if (threadIdx.x != 0) return;
  if (kRight) {
    atomicAdd(words, 1u);
  } else {
    words[0] += 1;
  }
}
PAIR(counter_without_atomic)

// Four blocks: a plain read of what is only ever updated atomically.
BODY plain_read_of_atomic(const float*, float* y, unsigned* words, int) {
  if (threadIdx.x != 0) return;
  atomicAdd(words, 1u);
  y[blockIdx.x] = kRight ? atomicAdd(words, 0u) : words[0];
}
PAIR(plain_read_of_atomic)
