// SPDX-License-Identifier: Apache-2.0
// What a cut keeps of the part of a row that a block has in registers.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

// A row's cut in terms of its logits.
__device__ __forceinline__ LogitCut logit_cut(const Cut& cut, float temperature) {
  const float last = quotient(kMaxFloat, temperature);
  const float next = key_value(order_key(cut.value) + 1);
  const float from = cut.value <= last ? least_logit(cut.value, temperature) : kInfinity;
  const float above = next <= last ? least_logit(next, temperature) : kInfinity;
  return {from, above, cut.id};
}

// Those of the strip in which the tie class of the cut ends.
__device__ __forceinline__ void drop_ties(const LogitCut& cut, int first,
                                          float (&x)[kTokensPerThread]) {
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (!cut.holds(x[j], first + kWarp * j)) x[j] = -kInfinity;
  }
}

// Makes -inf of what the cut drops: all tokens of a strip before `id` face one bound, all those of
// a strip after it the other.
__device__ __forceinline__ void drop(const LogitCut& cut, const ChunkPlace& at,
                                     float (&x)[kTokensPerThread]) {
  const int begin = at.strip * kStrip, end = begin + kStrip;
  if (uniform(begin < cut.id && cut.id < end)) return drop_ties(cut, at.first, x);
  const float bound = end <= cut.id ? cut.from : cut.above;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) x[j] = x[j] >= bound ? x[j] : -kInfinity;
}

}  // namespace cuda
}  // namespace spec_decode_ops
