// SPDX-License-Identifier: Apache-2.0
// Where a round of the token rule ends.
#pragma once

#include "cuda/round.cuh"

namespace spec_decode_ops {
namespace cuda {

// A position that ends the round, and how.
struct RoundEnd {
  int position;
  End end;
};

struct JudgeScratch {
  int first_rejected;
};

// The earliest position whose draft token is not accepted, or the number of drafts. By the block,
// where no pass over masses has found it: positions are shared out over the warps.
__device__ __forceinline__ int find_rejected(const Round& round, int64_t sequence,
                                             JudgeScratch& scratch) {
  const int drafts = int(round.drafted.length);
  if (threadIdx.x == 0) scratch.first_rejected = drafts;
  __syncthreads();
#pragma unroll 1
  for (int i = uniform_warp(); i < drafts; i += kThreads / kWarp) {
    End end;
    if (uniform(accepts_draft(round, sequence, i, end))) continue;
    if (lane_of_thread() == 0) atomicMin(&scratch.first_rejected, i);
    break;
  }
  __syncthreads();
  const int first = uniform(scratch.first_rejected);
  __syncthreads();
  return first;
}

// Where the sequence's round ends, in every thread.
__device__ __forceinline__ RoundEnd end_of_round(const Round& round, int64_t sequence,
                                                 JudgeScratch& scratch) {
  const int drafts = int(round.drafted.length);
  const int32_t* known = round.rows.target.first_rejected;
  const int rejected = known ? uniform(known[sequence]) : find_rejected(round, sequence, scratch);
  if (rejected >= drafts) {
    return {drafts, judged_greedily(round, sequence) ? End::kFirstMaximum : End::kOwnLaw};
  }
  End end;
  accepts_draft(round, sequence, rejected, end);
  return {rejected, End(uniform(int(end)))};
}

}  // namespace cuda
}  // namespace spec_decode_ops
