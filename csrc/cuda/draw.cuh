// SPDX-License-Identifier: Apache-2.0
// The Gumbel-argmax draw over one chunk of a row (common/gumbel.h), from logits that are already in
// registers.
//
// Exact pruning: a token whose coarse byte is not zero has G < kGumbelUnlessZero. So the 1 token in
// 256 with a zero byte and each warp's largest are scored first; then those that can still beat the
// best of them, few on any row.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

struct DrawScratch {
  Divisor temperature;
  Place place;
  int count, more;         // of the tokens that are scored first, and of those that may beat them
  uint32_t reach;          // key of a logit that all others must reach, from the best of the first
  uint32_t infinite;       // whether the chunk holds +inf
  uint16_t token[kChunk];  // from the chunk's first, in any order
  Scratch<Winner, kThreads> winners;
};

// By the first warp, before a barrier.
__device__ __forceinline__ void begin_draw(float temperature, const Place& place,
                                           DrawScratch& scratch) {
  const Divisor by = divisor(temperature);
  if (lane_of_thread() != 0) return;
  scratch.temperature = by;
  scratch.place = place;
  scratch.count = scratch.more = 0;
  scratch.reach = 0;
  scratch.infinite = 0;
}

// Lists a token.
__device__ __forceinline__ void push(int chunk_token, int& count, DrawScratch& scratch) {
  scratch.token[atomicAdd(&count, 1)] = uint16_t(chunk_token);
}

// 0x80 in each byte that is zero.
__device__ __forceinline__ uint32_t zero_bytes(uint32_t word) {
  return ~(((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word | 0x7f7f7f7fu);
}

// Lists the tokens with a zero coarse byte. Each thread looks at one token block, not at the tokens
// that it holds.
__device__ __forceinline__ void list_zero_bytes(int chunk, int vocab, DrawScratch& scratch) {
  const int chunk_first = int(threadIdx.x) * kTokensPerBlock;
  const int first = chunk * kChunk + chunk_first;
  if (first >= vocab) return;
  const Words words =
      draw_words(scratch.place, Purpose::kSample, uint32_t(first / kTokensPerBlock));
  const uint32_t in_order[4] = {words.w1, words.w0, words.w3, words.w2};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    for (uint32_t zeros = zero_bytes(in_order[w]); zeros; zeros &= zeros - 1) {
      const int byte = 4 * w + (__ffs(int(zeros)) - 1) / 8;
      if (first + byte < vocab) push(chunk_first + byte, scratch.count, scratch);
    }
  }
}

// Lists one token at the warp's largest logit: place `mine` of a lane that holds it, else -1.
__device__ __forceinline__ void list_largest(int mine, float largest, DrawScratch& scratch) {
  const uint32_t holders = __ballot_sync(kAllLanes, mine >= 0);
  if (largest > -kInfinity && lane_of_thread() == __ffs(int(holders)) - 1) {
    push(warp_of_thread() * kStrip + kWarp * mine + lane_of_thread(), scratch.count, scratch);
    if (largest == kInfinity) atomicOr(&scratch.infinite, 1u);
  }
}

// Lists those of the lane's tokens that reach `floor`.
__device__ __forceinline__ void list_reaching(float floor, const float (&x)[kTokensPerThread],
                                              DrawScratch& scratch) {
  uint32_t which = 0;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) which |= uint32_t(x[j] >= floor) << j;
  for (; which; which &= which - 1) {
    const int j = __ffs(int(which)) - 1;
    push(warp_of_thread() * kStrip + kWarp * j + lane_of_thread(), scratch.more, scratch);
  }
}

// Shows the listed tokens to the winner, one to a thread.
__device__ __forceinline__ void score_listed(const Row& row, int chunk, int count,
                                             const DrawScratch& scratch, Winner& best) {
  for (int i = int(threadIdx.x); i < count; i += kThreads) {
    const int token = chunk * kChunk + scratch.token[i];
    const float y = quotient(row.at(token), scratch.temperature);
    if (y > -kInfinity) best.show(scratch.place, token, y);
  }
}

// The draw over the chunk's tokens, in the first warp. By a block that has begun the draw and
// listed those that are scored first; `x` holds the chunk's logits. Mostly one warp has tokens to
// score, and the others pass by.
__device__ __forceinline__ Winner draw_chunk(Row row, int chunk, float (&x)[kTokensPerThread],
                                             DrawScratch& scratch) {
  __syncthreads();
  row.infinite = scratch.infinite != 0;
  if (uniform(row.infinite)) resolve_all(row, x);
  const int first_of_warp = uniform_warp() * kWarp;
  Winner best = no_winner();
  const bool scores = uniform(first_of_warp < scratch.count);
  if (scores) {
    score_listed(row, chunk, scratch.count, scratch, best);
    const float highest = key_value(__reduce_max_sync(kAllLanes, order_key(best.score.high)));
    const float floor = logit_floor(noise_floor(highest), scratch.temperature.value);
    if (lane_of_thread() == 0) atomicMax(&scratch.reach, order_bits(floor));
  }
  __syncthreads();
  const float reach = scratch.reach ? key_value(scratch.reach) : -kMaxFloat;
  list_reaching(reach, x, scratch);
  __syncthreads();
  if (uniform(first_of_warp < scratch.more)) {
    score_listed(row, chunk, scratch.more, scratch, best);
  }
  const bool holds = scores || uniform(first_of_warp < scratch.more);
  if (holds) best = warp_best(best);
  if (lane_of_thread() == 0) scratch.winners.slot[warp_of_thread()] = best;
  __syncthreads();
  if (uniform_warp() != 0) return best;
  best = lane_of_thread() < kThreads / kWarp ? scratch.winners.slot[lane_of_thread()] : no_winner();
  return warp_best(best);
}

}  // namespace cuda
}  // namespace spec_decode_ops
