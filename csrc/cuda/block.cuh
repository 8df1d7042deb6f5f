// SPDX-License-Identifier: Apache-2.0
// Block verification (common/block.h) from rows whose masses are known, or that are normalised:
// what is known of a sequence before any row pair is summed. The shares decide the last test, and
// most of the others; of ordinary rows 1.1 pairs a sequence are left to sum.
#pragma once

#include "common/block.h"
#include "cuda/round.cuh"

namespace spec_decode_ops {
namespace cuda {

// `lowest` tokens stand for sure, and `drafted` at most. Where the two are one, the token after
// them is drawn from the target's own law.
struct Reach {
  int32_t lowest;   // the last position with a share of 1, whose test passes whatever its sum is
  int32_t drafted;  // tokens of the draft up to its end, or to the first that has p = 0
};

struct BlockSpace {
  Reach* reach;     // [sequences]
  uint64_t* share;  // [drafts, sequences], 0 where the test fails whatever the sum is
};

inline BlockSpace new_block_space(const RowPair& rows, Arena& arena) {
  return {arena.take<Reach>(rows.draft.sequences), arena.take<uint64_t>(rows.draft.rows())};
}

// The share of a position whose pair has to be summed, or 0.
__device__ __forceinline__ uint64_t share_to_sum(const BlockSpace& block, const RowId& id) {
  const Reach reach = block.reach[id.sequence];
  if (id.position < reach.lowest || id.position >= reach.drafted) return 0;
  return block.share[id.row];
}

struct ReachParams {
  Round round;
  BlockSpace block;
};

cudaError_t find_reaches(const ReachParams& params, cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
