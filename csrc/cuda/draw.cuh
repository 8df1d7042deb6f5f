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

// Tokens of a chunk that are to be scored, in any order.
struct ScoreList {
  int count;
  uint16_t token[kChunk];  // from the chunk's first

  __device__ __forceinline__ void push(int chunk_token) {
    token[atomicAdd(&count, 1)] = uint16_t(chunk_token);
  }
};

struct DrawScratch {
  ScoreList list;
  Scratch<float, kThreads> highest;
  Scratch<Winner, kThreads> winners;
};

// 0x80 in each byte that is zero.
__device__ __forceinline__ uint32_t zero_bytes(uint32_t word) {
  return ~(((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word | 0x7f7f7f7fu);
}

// Lists the tokens with a zero coarse byte. Each thread looks at one token block, not at the tokens
// that it holds.
__device__ __forceinline__ void list_zero_bytes(const Place& place, int chunk, int vocab,
                                                ScoreList& list) {
  const int chunk_first = int(threadIdx.x) * kTokensPerBlock;
  const int first = chunk * kChunk + chunk_first;
  if (first >= vocab) return;
  const Words words = draw_words(place, Purpose::kSample, uint32_t(first / kTokensPerBlock));
  const uint32_t in_order[4] = {words.w1, words.w0, words.w3, words.w2};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    for (uint32_t zeros = zero_bytes(in_order[w]); zeros; zeros &= zeros - 1) {
      const int byte = 4 * w + (__ffs(int(zeros)) - 1) / 8;
      if (first + byte < vocab) list.push(chunk_first + byte);
    }
  }
}

// Lists one token at the warp's largest logit.
__device__ __forceinline__ void list_largest(const float (&x)[kTokensPerThread], ScoreList& list) {
  float largest = -kInfinity;
  int at = 0;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (x[j] > largest) {
      largest = x[j];
      at = j;
    }
  }
  const float warp_largest = warp_max(largest);
  const uint32_t holders = __ballot_sync(kAllLanes, largest == warp_largest);
  if (warp_largest > -kInfinity && lane_of_thread() == __ffs(int(holders)) - 1) {
    list.push(warp_of_thread() * kTokensPerWarp + kWarp * at + lane_of_thread());
  }
}

__device__ __forceinline__ Winner score_list(const Row& row, const Divisor& temperature,
                                             const Place& place, int chunk, const ScoreList& list,
                                             Winner best) {
  for (int i = int(threadIdx.x); i < list.count; i += kThreads) {
    const int token = chunk * kChunk + list.token[i];
    const float y = quotient(row.at(token), temperature);
    if (y > -kInfinity) best.show(place, token, y);
  }
  return best;
}

// The draw over the chunk's tokens, in the first warp. `x` holds them as `at` gives them. Ends with
// a barrier.
__device__ __forceinline__ Winner draw_chunk(const Row& row, float temperature, const Place& place,
                                             int chunk, const float (&x)[kTokensPerThread],
                                             DrawScratch& scratch) {
  ScoreList& list = scratch.list;
  if (threadIdx.x == 0) list.count = 0;
  __syncthreads();
  list_zero_bytes(place, chunk, row.vocab, list);
  list_largest(x, list);
  __syncthreads();
  const Divisor by = divisor(temperature);
  const Winner first = score_list(row, by, place, chunk, list, no_winner());
  const float highest = block_max(first.score.high, scratch.highest);
  // What is left must reach the best score so far, whoever holds it.
  const Winner bar = {{highest, 0.0f}, -1};
  const float floor = highest > -kInfinity ? logit_floor(bar.floor(), temperature) : -kMaxFloat;
  if (threadIdx.x == 0) list.count = 0;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (x[j] >= floor) list.push(warp_of_thread() * kTokensPerWarp + kWarp * j + lane_of_thread());
  }
  __syncthreads();
  Winner best = score_list(row, by, place, chunk, list, bar);
  best.meet(first.score, first.token);
  return block_best(best, scratch.winners);
}

}  // namespace cuda
}  // namespace spec_decode_ops
