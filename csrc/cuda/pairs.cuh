// SPDX-License-Identifier: Apache-2.0
// Sums over row pairs: of each tile the masses p and q of those of its tokens that have a weight
//
//   W(x) = max(share * p(x) - q(x), 0),
//
// which is the residual of the token rule where the share is 1, and that of the block rule
// (common/block.h). W of any run of tokens follows from two such sums of 64 bits, so that no token
// costs a wide one.
#pragma once

#include "cuda/block.cuh"

namespace spec_decode_ops {
namespace cuda {

struct PairSum {
  uint64_t p, q;
};

__device__ __forceinline__ PairSum add(PairSum a, PairSum b) { return {a.p + b.p, a.q + b.q}; }
__device__ __forceinline__ PairSum sub(PairSum a, PairSum b) { return {a.p - b.p, a.q - b.q}; }

struct PairSpace {
  PairSum* tile;  // [pairs of a sequence, sequences, target tiles], or nullptr if none is summed
  int64_t positions;  // whose pairs are kept apart, under the block rule; else 1

  __device__ __forceinline__ PairSum* of(const RowGroup& target, const RowId& id) const {
    const int64_t pair = positions == 1 ? id.sequence : id.row;
    return tile + pair * target.tiles();
  }
};

// Of a draft that is one token only those of normalised rows are summed: the others are the
// masses, but for that token. Of normalised rows also a row's own law is, where it is drawn from.
inline PairSpace new_pair_space(const RowPair& rows, bool by_block, bool normalized, Arena& arena) {
  const RowGroup &target = rows.target, &draft = rows.draft;
  if (draft.rows() == 0 && !normalized) return {};
  const int64_t of_block = normalized ? target.positions : draft.positions;
  const int64_t positions = by_block ? of_block : 1;
  return {arena.take<PairSum>(target.sequences * positions * target.tiles()), positions};
}

struct PairParams {
  Round round;
  BlockSpace block;
  PairSpace pairs;
};

// Sums the tiles of all pairs that a test or a draw may need.
cudaError_t sum_pairs(const PairParams& params, cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
