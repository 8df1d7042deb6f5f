// SPDX-License-Identifier: Apache-2.0
#include "cuda/block.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

// A draft token under both laws.
struct TokenMasses {
  uint64_t p, p_total, q, q_total;  // q == 0: the draft ends before it
};

// By a thread. requires a position whose rows are summed, or normalised
__device__ __forceinline__ TokenMasses token_masses(const Round& round, int64_t sequence,
                                                    int64_t position) {
  const RowPair& rows = round.rows;
  const int64_t drafted = round.drafted.at(sequence, position);
  if (!in_vocabulary(drafted, rows.target.logits, rows.draft.logits)) return {};
  const Law draft = law_of(rows.draft, row_id(rows.draft, sequence, position), round.normalized);
  const uint64_t q = draft.of(int(drafted));
  if (q == 0) return {};
  const Law target = law_of(rows.target, row_id(rows.target, sequence, position), round.normalized);
  if (target.total == 0) return {};
  return {target.of(int(drafted)), target.total, q, draft.total};
}

__device__ __forceinline__ TokenMasses of_lane(const TokenMasses& mine, int lane) {
  return {__shfl_sync(kAllLanes, mine.p, lane), __shfl_sync(kAllLanes, mine.p_total, lane),
          __shfl_sync(kAllLanes, mine.q, lane), __shfl_sync(kAllLanes, mine.q_total, lane)};
}

// floor(a / b), without a division: each step tries all values of five bits, one a lane. By a warp,
// in every lane. requires b > 0 and a < 2^63 * b
__device__ __forceinline__ uint64_t warp_divide(Triple a, Wide b) {
  uint64_t quotient = 0;
#pragma unroll 1
  for (int shift = 60; shift >= 0; shift -= 5) {
    const uint64_t larger = quotient | uint64_t(lane_of_thread()) << shift;
    const bool fits = lane_of_thread() < 8 || shift < 60;
    const uint32_t reached = __ballot_sync(kAllLanes, fits && !less(a, multiply(b, larger)));
    quotient |= uint64_t(__popc(reached) - 1) << shift;
  }
  return quotient;
}

// The sequence's reach; leaves its shares. By a warp.
__device__ __forceinline__ Reach find_reach(const ReachParams& p, int64_t sequence) {
  const Round& round = p.round;
  const int32_t* first_rejected = round.rows.target.first_rejected;
  const int drafts = int(round.drafted.length);
  const int known = first_rejected ? uniform(first_rejected[sequence]) : drafts;
  if (judged_greedily(round, sequence)) {
    const int length = known < drafts ? known : drafts;
    return {length, length};
  }
  const int end = known < drafts ? known + 1 : drafts;
  uint64_t share = kWholeShare, word = 0;
  TokenMasses mine{}, before{};
  Reach reach{0, 0};
#pragma unroll 1
  for (int position = 0; position < end; ++position) {
    const int lane = position % kWarp;
    if (lane == 0) {  // each lane looks at one position of the next 32
      const int ours = position + lane_of_thread();
      mine = ours < end ? token_masses(round, sequence, ours) : TokenMasses{};
      word = ours > 0 && ours < end ? fractions(round, sequence, ours - 1).accept : 0;
      __syncwarp();
    }
    const TokenMasses token = of_lane(mine, lane);
    if (uniform(token.q == 0)) break;
    if (position > 0) {
      share = next_share(share, before.p, before.p_total, before.q, before.q_total, warp_divide);
    }
    const bool sums = may_stand(__shfl_sync(kAllLanes, word, lane), share);
    if (lane_of_thread() == 0) {
      p.block.share[row_id(round.rows.draft, sequence, position).row] = sums ? share : 0;
    }
    if (share == kWholeShare) reach.lowest = position;
    reach.drafted = position + 1;
    before = token;
    if (uniform(token.p == 0)) break;
  }
  if (uniform(reach.drafted > 0)) {
    const uint64_t accept = fractions(round, sequence, reach.drafted - 1).accept;
    const bool all = last_stands(accept, share, before.p, before.p_total, before.q, before.q_total);
    if (all) reach.lowest = reach.drafted;
  }
  return reach;
}

}  // namespace

// A warp a sequence.
__global__ void __launch_bounds__(kWarp, 1) reach_kernel(const __grid_constant__ ReachParams p) {
  const Reach reach = find_reach(p, blockIdx.x);
  if (lane_of_thread() == 0) p.block.reach[blockIdx.x] = reach;
}

cudaError_t find_reaches(const ReachParams& params, cudaStream_t stream) {
  const int64_t sequences = params.round.rows.target.sequences;
  return launch(reach_kernel, Grid{sequences, 1, 1}, kWarp, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
