// SPDX-License-Identifier: Apache-2.0
// Collectives of a warp and of a block. A warp's lanes exchange values by shuffles, warps through
// shared memory and only across a block barrier.
#pragma once

#include "common/mass.h"
#include "common/order.h"
#include "common/wide.h"
#include "common/winner.h"
#include "cuda/policy.cuh"

namespace spec_decode_ops {
namespace cuda {

constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_of_thread() { return int(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_of_thread() { return int(threadIdx.x) / kWarp; }

// A value that all lanes hold, in a way that the compiler sees: it then keeps the warp together
// where the value is branched on, and a collective below costs no call. By whole warps.
template <class T>
__device__ __forceinline__ T uniform(T x) {
  return T(__shfl_sync(kAllLanes, x, 0));
}

__device__ __forceinline__ bool uniform(bool x) { return __any_sync(kAllLanes, x); }

// The same as warp_of_thread, for branches and loops.
__device__ __forceinline__ int uniform_warp() { return uniform(warp_of_thread()); }

// ---- Of a warp: all lanes call, all lanes get the result ----

// requires no NaN. -0 counts as +0
__device__ __forceinline__ float warp_max(float x) {
  return key_value(__reduce_max_sync(kAllLanes, order_key(x)));
}

__device__ __forceinline__ uint64_t warp_sum(uint64_t x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

__device__ __forceinline__ Wide warp_sum(Wide x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    x = add(
        x, Wide{__shfl_xor_sync(kAllLanes, x.high, step), __shfl_xor_sync(kAllLanes, x.low, step)});
  }
  return x;
}

// The mass of a tile from the pieces of each lane's four tokens, which stay within 32 bits.
__device__ __forceinline__ uint64_t warp_mass(uint32_t units, int32_t rest) {
  return join_mass(int64_t(__reduce_add_sync(kAllLanes, units)),
                   int64_t(__reduce_add_sync(kAllLanes, rest)));
}

__device__ __forceinline__ Winner warp_best(Winner best) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Score score = {__shfl_xor_sync(kAllLanes, best.score.high, step),
                         __shfl_xor_sync(kAllLanes, best.score.low, step)};
    best.meet(score, __shfl_xor_sync(kAllLanes, best.token, step));
  }
  return best;
}

// ---- Of a block: all threads call, and it ends with a barrier ----

template <class T, int kBlock>
struct Scratch {
  T slot[kBlock / kWarp];
};

// Combines one value of each warp, for every thread.
template <class T, int kBlock, class Combine>
__device__ __forceinline__ T combine_warps(T x, Scratch<T, kBlock>& scratch, Combine combine) {
  if (lane_of_thread() == 0) scratch.slot[warp_of_thread()] = x;
  __syncthreads();
  T all = scratch.slot[0];
#pragma unroll
  for (int w = 1; w < kBlock / kWarp; ++w) all = combine(all, scratch.slot[w]);
  __syncthreads();
  return all;
}

template <int kBlock>
__device__ __forceinline__ float block_max(float x, Scratch<float, kBlock>& scratch) {
  return combine_warps(warp_max(x), scratch, [](float a, float b) { return fmaxf(a, b); });
}

template <int kBlock>
__device__ __forceinline__ uint64_t block_sum(uint64_t x, Scratch<uint64_t, kBlock>& scratch) {
  return combine_warps(warp_sum(x), scratch, [](uint64_t a, uint64_t b) { return a + b; });
}

// The result is the first warp's only.
template <int kBlock>
__device__ __forceinline__ Winner block_best(Winner x, Scratch<Winner, kBlock>& scratch) {
  const Winner mine = warp_best(x);
  if (lane_of_thread() == 0) scratch.slot[warp_of_thread()] = mine;
  __syncthreads();
  Winner all = no_winner();
  if (uniform_warp() == 0) {
    if (lane_of_thread() < kBlock / kWarp) all = scratch.slot[lane_of_thread()];
    all = warp_best(all);
  }
  __syncthreads();
  return all;
}

}  // namespace cuda
}  // namespace spec_decode_ops
