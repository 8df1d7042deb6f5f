// SPDX-License-Identifier: Apache-2.0
// Four blocks of 256: each leaves a sum, and the last one to take a ticket adds them up.
#include <cuda/atomic>

#include "pair.cuh"

using Ticket = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

enum class Way { kFence, kAtomic };

// What may be missing.
struct Parts {
  Way way;
  bool barrier_before, release, acquire, barrier_after;
  bool coherent = true;
};

template <bool kAcquire, bool kRelease>
__device__ unsigned take(unsigned* ticket, Way way) {
  if (way == Way::kFence) {
    if (kRelease) __threadfence();
    const unsigned taken = atomicAdd(ticket, 1u);
    if (kAcquire) __threadfence();
    return taken;
  }
  constexpr auto kOrder = kAcquire && kRelease ? cuda::memory_order_acq_rel
                          : kAcquire           ? cuda::memory_order_acquire
                          : kRelease           ? cuda::memory_order_release
                                               : cuda::memory_order_relaxed;
  return Ticket(*ticket).fetch_add(1u, kOrder);
}

template <class Missing>
__device__ void sum_of_blocks(const float* x, float* y, unsigned* ticket) {
  constexpr Parts kParts = Missing::kParts;
  __shared__ bool is_last;
  const int t = threadIdx.x;
  y[blockIdx.x * 256 + t] = x[blockIdx.x * 256 + t];
  if (kParts.barrier_before) __syncthreads();
  if (t == 0) {
    is_last = take<kParts.acquire, kParts.release>(ticket, kParts.way) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) {
    const float* p = y + i * 256 + (255 - t);
    sum += kParts.coherent ? *p : __ldg(p);
  }
  __syncthreads();
  y[t] = sum;
}

#define TICKET(name, ...)                                                           \
  struct name##_parts {                                                             \
    static constexpr Parts kParts = __VA_ARGS__;                                    \
  };                                                                                \
  extern "C" __global__ void name(const float* x, float* y, unsigned* words, int) { \
    sum_of_blocks<name##_parts>(x, y, words);                                       \
  }

TICKET(ticket_by_fences_right, {Way::kFence, true, true, true, true})
TICKET(ticket_by_atomic_right, {Way::kAtomic, true, true, true, true})
TICKET(fence_before_ticket_missing, {Way::kFence, true, false, true, true})
TICKET(fence_after_ticket_missing, {Way::kFence, true, true, false, true})
TICKET(barrier_before_fence_missing, {Way::kFence, false, true, true, true})
TICKET(ticket_without_release, {Way::kAtomic, true, false, true, true})
TICKET(ticket_without_acquire, {Way::kAtomic, true, true, false, true})
TICKET(ticket_relaxed, {Way::kAtomic, true, false, false, true})
TICKET(barrier_before_ticket_missing, {Way::kAtomic, false, true, true, true})
TICKET(non_coherent_load, {Way::kAtomic, true, true, true, true, false})

// A flag, published by one block and read by another, once: 1 says that the sum is there.
BODY flag(const float* x, float* y, unsigned* words, int) {
  if (threadIdx.x != 0) return;
  Ticket ready(words[1]);
  if (blockIdx.x == 0) {
    y[0] = x[0];
    ready.store(1u, kRight ? cuda::memory_order_release : cuda::memory_order_relaxed);
  } else if (ready.load(cuda::memory_order_acquire) == 1) {
    y[blockIdx.x] = y[0];
  }
}
PAIR(flag)

// Every block waits for the one before it, which runs only if blocks take turns.
BODY turns(const float*, float* y, unsigned* words, int) {
  if (threadIdx.x != 0) return;
  Ticket turn(words[2]);
  const unsigned mine = kRight ? blockIdx.x : blockIdx.x + 1;
  while (turn.load(cuda::memory_order_acquire) != mine) {
  }
  y[0] += 1;
  turn.store(mine + 1, cuda::memory_order_release);
}
PAIR(turns)
