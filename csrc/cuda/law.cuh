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

struct PickScratch {
  Wide prefix[kThreads];
  int place;
  Wide rest;
};

// The sum over the block's threads before this one, and over all of them in `all`. Ends with a
// barrier.
__device__ __forceinline__ Wide block_sum_before(Wide x, PickScratch& scratch, Wide& all) {
  Wide sum = x;
  scratch.prefix[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll 1
  for (int step = 1; step < kThreads; step *= 2) {
    const bool adds = int(threadIdx.x) >= step;
    const Wide other = adds ? scratch.prefix[threadIdx.x - step] : Wide{0, 0};
    __syncthreads();
    if (adds) scratch.prefix[threadIdx.x] = sum = add(sum, other);
    __syncthreads();
  }
  all = scratch.prefix[kThreads - 1];
  __syncthreads();
  return sub(sum, x);
}

// The tile, and then its token, at which the running sum of weights exceeds `fraction` of the
// whole, in every thread; -1 if all weigh nothing. By a block of kThreads.
template <class WeightOfTile, class WeightOfToken>
__device__ __forceinline__ int draw_by_weight(int tiles, int vocab, uint64_t fraction,
                                              PickScratch& scratch, WeightOfTile weight_of_tile,
                                              WeightOfToken weight_of_token) {
  const int share = (tiles + kThreads - 1) / kThreads;
  const int first = int(threadIdx.x) * share;
  const int last = first + share < tiles ? first + share : tiles;
  Wide sum{0, 0}, total;
  for (int t = first; t < last; ++t) sum = add(sum, weight_of_tile(t));
  Wide before = block_sum_before(sum, scratch, total);
  if (is_zero(total)) return -1;
  const Wide goal = scale(fraction, total);
  if (!less(goal, before) && less(goal, add(before, sum))) {
    Wide rest = sub(goal, before);
    int t = first;
    for (; !less(rest, weight_of_tile(t)); ++t) rest = sub(rest, weight_of_tile(t));
    scratch.place = t;
    scratch.rest = rest;
  }
  __syncthreads();
  const int tile = scratch.place;
  const Wide rest = scratch.rest;
  __syncthreads();
  const int token = tile * kTile + int(threadIdx.x);
  const bool in_tile = int(threadIdx.x) < kTile && token < vocab;
  const Wide weight = in_tile ? weight_of_token(token) : Wide{0, 0};
  before = block_sum_before(weight, scratch, total);
  if (!less(rest, before) && less(rest, add(before, weight))) scratch.place = token;
  __syncthreads();
  const int drawn = scratch.place;
  __syncthreads();
  return drawn;
}

}  // namespace cuda
}  // namespace spec_decode_ops
