// SPDX-License-Identifier: Apache-2.0
// The law of one position, target or draft, as integer masses over a total, whatever it comes from;
// and the draw by integer weight.
#pragma once

#include "common/accept.h"
#include "cuda/scanned.cuh"

namespace spec_decode_ops {
namespace cuda {

struct Law {
  bool one_token;  // its mass is all there is, 1 of 1
  int token;
  Row row;
  Masses masses;
  LogitCut cut;    // of logits
  uint64_t total;  // the denominator of every mass: their sum, or what stands for it

  // 0 for a token that the law does not know. requires token >= 0
  __device__ __forceinline__ uint64_t of(int token_) const {
    if (one_token) return token_ == token;
    if (token_ >= row.vocab) return 0;
    const float x = row.at(token_);
    if (masses.probabilities) return masses.of(x);
    return cut.holds(x, token_) ? masses.of(x) : 0;
  }
};

__device__ __forceinline__ Law one_token(int token) {
  Law law{};
  law.one_token = true;
  law.token = token;
  law.total = 1;
  return law;
}

// `normalized` rows of probabilities have no masses to sum, and were not scanned.
__device__ __forceinline__ Law law_of(const RowGroup& group, const RowId& id, bool normalized) {
  Law law{};
  law.row = plain_row(group, id);
  if (normalized) {
    law.masses = masses_of_probabilities(1.0f, true);
    law.total = kMassOfMax;
    return law;
  }
  const RowLaw known = group.law[id.row];
  look_through_penalty(group, id, filter_of(group, id.sequence).penalty, law.row);
  law.row.infinite = known.holds_infinity;
  law.masses = known.masses;
  law.cut = known.cut;
  law.total = known.total;
  return law;
}

template <class Sum>
struct PickScratch {
  Sum prefix[kThreads];
  int place;
  Sum before;
};

// The sum over the block's threads before this one, and over all of them in `all`. Ends with a
// barrier.
template <class Sum>
__device__ __forceinline__ Sum block_sum_before(Sum x, PickScratch<Sum>& scratch, Sum& all) {
  Sum sum = x;
  scratch.prefix[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll 1
  for (int step = 1; step < kThreads; step *= 2) {
    const bool adds = int(threadIdx.x) >= step;
    const Sum other = adds ? scratch.prefix[threadIdx.x - step] : Sum{0, 0};
    __syncthreads();
    if (adds) scratch.prefix[threadIdx.x] = sum = add(sum, other);
    __syncthreads();
  }
  all = scratch.prefix[kThreads - 1];
  __syncthreads();
  return sub(sum, x);
}

// A running sum over a row's tiles, of which each thread has some that are next to each other.
template <class Sum>
struct TileSums {
  int first;         // of this thread's tiles
  Sum before, mine;  // over the tiles before them, and over them
  Sum total;         // over all
};

// By a block of kThreads. Ends with a barrier.
template <class Sum, class SumOfTile>
__device__ __forceinline__ TileSums<Sum> sum_of_tiles(int tiles, PickScratch<Sum>& scratch,
                                                      SumOfTile sum_of_tile) {
  const int share = (tiles + kThreads - 1) / kThreads;
  const int first = int(threadIdx.x) * share;
  const int last = first + share < tiles ? first + share : tiles;
  TileSums<Sum> sums{first, {0, 0}, {0, 0}, {0, 0}};
  for (int t = first; t < last; ++t) sums.mine = add(sums.mine, sum_of_tile(t));
  sums.before = block_sum_before(sums.mine, scratch, sums.total);
  return sums;
}

// The tile, and then its token, at which the running sum exceeds the goal, in every thread. By a
// block of kThreads. requires that the total exceeds it
template <class Sum, class SumOfTile, class SumOfToken, class Exceeds>
__device__ __forceinline__ int draw_where(const TileSums<Sum>& sums, int vocab,
                                          PickScratch<Sum>& scratch, SumOfTile sum_of_tile,
                                          SumOfToken sum_of_token, Exceeds exceeds) {
  if (!exceeds(sums.before) && exceeds(add(sums.before, sums.mine))) {
    Sum before = sums.before;
    int t = sums.first;
    for (;; ++t) {
      const Sum through = add(before, sum_of_tile(t));
      if (exceeds(through)) break;
      before = through;
    }
    scratch.place = t;
    scratch.before = before;
  }
  __syncthreads();
  const int tile = scratch.place;
  const Sum before_tile = scratch.before;
  __syncthreads();
  const int token = tile * kTile + int(threadIdx.x);
  const bool in_tile = int(threadIdx.x) < kTile && token < vocab;
  const Sum mine = in_tile ? sum_of_token(token) : Sum{0, 0};
  Sum total;
  const Sum before = add(before_tile, block_sum_before(mine, scratch, total));
  if (!exceeds(before) && exceeds(add(before, mine))) scratch.place = token;
  __syncthreads();
  const int drawn = scratch.place;
  __syncthreads();
  return drawn;
}

}  // namespace cuda
}  // namespace spec_decode_ops
