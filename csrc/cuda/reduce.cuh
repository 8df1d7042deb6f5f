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

__device__ __forceinline__ int lane_of_thread() { return int(threadIdx.x % kWarp); }
__device__ __forceinline__ int warp_of_thread() { return int(threadIdx.x / kWarp); }

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

// The sum over the lanes up to and including this one.
__device__ __forceinline__ uint64_t warp_sum_through(uint64_t x) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const uint64_t other = __shfl_up_sync(kAllLanes, x, step);
    if (lane_of_thread() >= step) x += other;
  }
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

// By three reductions, in the order of `beats`. requires no NaN
__device__ __forceinline__ Winner warp_best(const Winner& best) {
  const uint32_t high = order_key(best.score.high), low = order_key(best.score.low);
  const uint32_t highest = __reduce_max_sync(kAllLanes, high);
  const uint32_t rest = __reduce_max_sync(kAllLanes, high == highest ? low : 0u);
  const bool equal = high == highest && low == rest;
  const uint32_t none = 0xffffffffu;  // as no_winner has it
  const uint32_t token = __reduce_min_sync(kAllLanes, equal ? uint32_t(best.token) : none);
  return {{key_value(highest), key_value(rest)}, int32_t(token)};
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
__device__ __forceinline__ uint64_t block_sum(uint64_t x, Scratch<uint64_t, kBlock>& scratch) {
  return combine_warps(warp_sum(x), scratch, [](uint64_t a, uint64_t b) { return a + b; });
}

template <int kBlock>
__device__ __forceinline__ Winner block_best(Winner x, Scratch<Winner, kBlock>& scratch) {
  const Winner mine = warp_best(x);
  if (lane_of_thread() == 0) scratch.slot[warp_of_thread()] = mine;
  __syncthreads();
  Winner all = no_winner();
  if (lane_of_thread() < kBlock / kWarp) all = scratch.slot[lane_of_thread()];
  all = warp_best(all);
  __syncthreads();
  return all;
}

// ---- Sums of a block by place, in shared memory ----

// 64-bit sums, each by two native atomics of 32 bits.
template <int kCount, int kBlock>
struct SharedSums {
  uint32_t low[kCount], high[kCount];

  // By the block; seen by it after a barrier.
  __device__ __forceinline__ void clear() {
    for (int i = int(threadIdx.x); i < kCount; i += kBlock) low[i] = high[i] = 0;
  }
  __device__ __forceinline__ void add(int place, uint64_t x) {
    const uint32_t more = uint32_t(x);
    const uint32_t before = atomicAdd(&low[place], more);
    const uint32_t carried = uint32_t(x >> 32) + (before + more < before);
    if (carried) atomicAdd(&high[place], carried);
  }
  // requires a barrier since the last `add`
  __device__ __forceinline__ uint64_t at(int place) const {
    return uint64_t(high[place]) << 32 | low[place];
  }
};

// Where a running sum reaches what is needed, and what is left to reach there.
struct Crossing {
  int place;
  uint64_t need;
};

// By a warp, in every lane: `at(i)` is the i-th of kCount weights. requires 1 <= need <= their sum
template <int kCount, class At>
__device__ __forceinline__ Crossing warp_crossing(uint64_t need, At at) {
  constexpr int kPerLane = kCount / kWarp;
  const int first = lane_of_thread() * kPerLane;
  uint64_t sum = 0;
  for (int i = 0; i < kPerLane; ++i) sum += at(first + i);
  uint64_t before = warp_sum_through(sum) - sum;
  const bool mine = before < need && need - before <= sum;
  int place = first;
  if (mine) {
    for (;; ++place) {
      const uint64_t weight = at(place);
      if (before + weight >= need) break;
      before += weight;
    }
  }
  const int holder = __ffs(int(__ballot_sync(kAllLanes, mine))) - 1;
  return {__shfl_sync(kAllLanes, place, holder), need - __shfl_sync(kAllLanes, before, holder)};
}

}  // namespace cuda
}  // namespace spec_decode_ops
