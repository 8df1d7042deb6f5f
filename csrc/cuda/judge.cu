// SPDX-License-Identifier: Apache-2.0
#include "cuda/judge.cuh"

#include "cuda/round_end.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

// What a token is drawn from: the weights W of a row pair (pairs.cuh), or the target's own law,
// whose W is p.
struct Drawn {
  Law target, draft;
  BlockWeights weights;
  uint64_t spared;  // p of the draft's one token

  __device__ __forceinline__ PairSum of(int token) const {
    const PairSum mass{target.of(token), is_zero(weights.of_q) ? 0 : draft.of(token)};
    return keeps(weights, mass.p, mass.q) ? mass : PairSum{0, 0};
  }
  __device__ __forceinline__ Triple weight(const PairSum& sum) const {
    return weight_of_kept(weights, sum.p, sum.q);
  }
};

struct JudgeSpace {
  JudgeScratch end;
  Drawn drawn;
  PickScratch<PairSum> pick;
  Scratch<PairSum, kThreads> totals;
};

// Leaves it in shared memory, for all of the block; a share of 0 asks for the target's own law.
__device__ __forceinline__ void find_drawn(const Round& round, const RowId& id, uint64_t share,
                                           Drawn& drawn) {
  __syncthreads();
  if (uniform_warp() == 0) {
    const Law target = law_of(round.rows.target, id, round.normalized);
    Law draft{};
    if (share) draft = draft_law(round, id, int(round.drafted.at(id.sequence, id.position)));
    if (lane_of_thread() == 0) {
      drawn.target = target;
      drawn.draft = draft;
      drawn.spared = draft.one_token ? target.of(draft.token) : 0;
      drawn.weights =
          share ? block_weights(share, target.total, draft.total) : BlockWeights{{0, 1}, {0, 0}};
    }
  }
  __syncthreads();
}

// Fills the tiles of the target's own law. By the block, and seen by all of it.
__device__ __forceinline__ void sum_own_tiles(const Law& law, int tiles, PairSum* tile) {
#pragma unroll 1
  for (int t = uniform_warp(); t < tiles; t += kThreads / kWarp) {
    uint64_t sum = 0;
#pragma unroll 1
    for (int j = 0; j < kLoadsPerTile; ++j) {
      const int token = t * kTile + kWarp * j + lane_of_thread();
      if (token < law.row.vocab) sum += law.of(token);
    }
    sum = warp_sum(sum);
    if (lane_of_thread() == 0) tile[t] = {sum, 0};
  }
  __syncthreads();
}

// The token drawn at a position; a share of 0 asks for the target's own law. By the block. Where no
// token has a weight, as share * p <= q everywhere by what was rounded, it is drawn from p.
__device__ __forceinline__ int draw_token(const JudgeParams& p, const RowId& id, uint64_t share,
                                          JudgeSpace& space) {
  const RowGroup& target = p.round.rows.target;
  const int tiles = target.tiles(), vocab = int(target.logits.vocab);
  const uint64_t* mass = target.tile_mass ? target.tile_mass + id.row * tiles : nullptr;
  PairSum* tile = p.pairs.of(target, id);
  const Drawn& drawn = space.drawn;
  const Fractions u = fractions(p.round, id.sequence, id.position);
  const uint64_t fraction = share ? u.residual : u.bonus;
#pragma unroll 1
  for (bool again = false;; again = true) {
    find_drawn(p.round, id, share, space.drawn);
    if (again && !mass) sum_own_tiles(drawn.target, tiles, tile);
    const bool summed = mass && (share == 0 || drawn.draft.one_token);
    const int spared = drawn.draft.one_token ? drawn.draft.token / kTile : -1;
    const auto of_tile = [&](int t) {
      return summed ? PairSum{mass[t] - (t == spared ? drawn.spared : 0), 0} : tile[t];
    };
    const auto sums = sum_of_tiles(tiles, space.pick, of_tile);
    const Triple total = drawn.weight(sums.total);
    if (uniform(!is_zero(total))) {
      const Triple goal = scale(fraction, total);
      const auto of_token = [&](int t) { return drawn.of(t); };
      const auto exceeds = [&](const PairSum& sum) { return less(goal, drawn.weight(sum)); };
      return draw_where(sums, vocab, space.pick, of_tile, of_token, exceeds);
    }
    if (uniform(share == 0)) return -1;
    share = 0;
  }
}

// ---- The block rule ----

__device__ __forceinline__ uint64_t total_of(const RowGroup& group, int64_t row, bool normalized) {
  return normalized ? kMassOfMax : group.law[row].total;
}

// Whether the first `id.position` draft tokens stand, by the sums of the pair there. By the block.
__device__ __forceinline__ bool passes(const JudgeParams& p, const RowId& id, uint64_t share,
                                       Scratch<PairSum, kThreads>& scratch) {
  const RowPair& rows = p.round.rows;
  const PairSum* tile = p.pairs.of(rows.target, id);
  PairSum sum{0, 0};
  for (int t = int(threadIdx.x); t < rows.target.tiles(); t += kThreads) sum = add(sum, tile[t]);
  sum = combine_warps(PairSum{warp_sum(sum.p), warp_sum(sum.q)}, scratch,
                      [](const PairSum& a, const PairSum& b) { return add(a, b); });
  const int64_t of_draft = row_id(rows.draft, id.sequence, id.position).row;
  const uint64_t p_total = total_of(rows.target, id.row, p.round.normalized);
  const uint64_t q_total = total_of(rows.draft, of_draft, p.round.normalized);
  const Triple weight = weight_of_kept(block_weights(share, p_total, q_total), sum.p, sum.q);
  const uint64_t word = fractions(p.round, id.sequence, id.position - 1).accept;
  return stands(word, weight, share, p_total, q_total);
}

// Where the sequence's round ends and, with a residual, at which share. By the block.
__device__ __forceinline__ RoundEnd end_of_block(const JudgeParams& p, int64_t sequence,
                                                 uint64_t& share,
                                                 Scratch<PairSum, kThreads>& scratch) {
  const RowGroup& target = p.round.rows.target;
  const Reach reach = p.block.reach[sequence];
  const int lowest = uniform(reach.lowest);
  int length = uniform(reach.drafted);
  if (judged_greedily(p.round, sequence)) return {length, End::kFirstMaximum};
  if (length == lowest) return {length, End::kOwnLaw};
#pragma unroll 1
  for (;;) {
    const RowId id = row_id(target, sequence, --length);
    share = share_to_sum(p.block, id);
    if (uniform(share == 0)) continue;
    if (length == lowest || uniform(passes(p, id, share, scratch))) {
      return {length, End::kResidual};
    }
  }
}

}  // namespace

// A block a sequence.
__global__ void __launch_bounds__(kThreads, 1) pick_kernel(const __grid_constant__ JudgeParams p) {
  __shared__ JudgeSpace space;
  const int64_t sequence = blockIdx.x;
  const RowGroup& target = p.round.rows.target;
  uint64_t share = kWholeShare;
  const RoundEnd end = p.round.block ? end_of_block(p, sequence, share, space.totals)
                                     : end_of_round(p.round, sequence, space.end);
  const RowId id = row_id(target, sequence, end.position);
  int token;
  if (end.end == End::kFirstMaximum) {
    token = first_maximum(target, id.row, scanned_row(target, id, filter_of(target, sequence)));
  } else {
    token = draw_token(p, id, end.end == End::kResidual ? share : 0, space);
  }
  leave_verdict(p.verdicts, p.round.drafted, sequence, end.position, token);
}

cudaError_t judge(const JudgeParams& params, cudaStream_t stream) {
  const Round& round = params.round;
  if (round.block) RETURN_IF_FAILED(find_reaches({round, params.block}, stream));
  if (params.pairs.tile) {
    RETURN_IF_FAILED(sum_pairs({round, params.block, params.pairs}, stream));
  }
  return launch(pick_kernel, Grid{round.rows.target.sequences, 1, 1}, kThreads, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
