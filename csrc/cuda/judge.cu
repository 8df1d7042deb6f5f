// SPDX-License-Identifier: Apache-2.0
#include "cuda/judge.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

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

// The weights of the residual max(p - q, 0) or, after a normalised row's own end, of the row.
struct Weights {
  Law target, draft;

  __device__ __forceinline__ Wide of(int token, bool residual) const {
    const uint64_t p = target.of(token);
    if (!residual || p == 0) return {0, p};
    return spec_decode_ops::residual(p, target.total, draft.of(token), draft.total);
  }
};

// Leaves them in shared memory. By the block.
__device__ __forceinline__ void find_weights(const Round& p, int64_t sequence, const RoundEnd& end,
                                             Weights& weights) {
  if (uniform_warp() == 0) {
    const RowId id = row_id(p.rows.target, sequence, end.position);
    const Law target = law_of(p.rows.target, id, p.normalized);
    if (lane_of_thread() == 0) weights.target = target;
    Law draft{};
    if (end.end == End::kResidual) {
      draft = draft_law(p, id, int(p.drafted.at(sequence, end.position)));
    }
    if (lane_of_thread() == 0) weights.draft = draft;
  }
  __syncthreads();
}

// The weight of one tile, in every lane. By a warp.
__device__ __forceinline__ Wide tile_weight(const Weights& weights, bool residual, int tile) {
  Wide sum{0, 0};
#pragma unroll 1
  for (int j = 0; j < kLoadsPerTile; ++j) {
    const int token = tile * kTile + kWarp * j + lane_of_thread();
    if (token < weights.target.row.vocab) sum = add(sum, weights.of(token, residual));
  }
  return warp_sum(sum);
}

// Whether the weights of the tiles are not those that the masses already are.
__device__ __forceinline__ bool needs_weights(const Round& p, End end) {
  return end == End::kResidual || (end == End::kOwnLaw && p.normalized);
}

// Fills the weights of tiles first .. last - 1. By the block, and seen by all of it.
__device__ __forceinline__ void weigh_tiles(const Weights& weights, bool residual, int first,
                                            int last, Wide* weight) {
#pragma unroll 1
  for (int t = first + uniform_warp(); t < last; t += kThreads / kWarp) {
    const Wide sum = tile_weight(weights, residual, t);
    if (lane_of_thread() == 0) weight[t] = sum;
  }
  __syncthreads();
}

// A token drawn where the round ends. By the block. Where the residual has no mass, as p <= q
// everywhere by what was rounded, it is drawn from p.
__device__ __forceinline__ int draw_end(const JudgeParams& p, int64_t sequence, const RoundEnd& end,
                                        const Weights& weights, PickScratch& scratch) {
  bool residual = end.end == End::kResidual;
  const RowGroup& target = p.round.rows.target;
  const Fractions u = fractions(p.round, sequence, end.position);
  const uint64_t fraction = residual ? u.residual : u.bonus;
  const int tiles = target.tiles(), vocab = int(target.logits.vocab);
  Wide* weight = p.tile_weight + sequence * tiles;
  const uint64_t* mass = target.tile_mass;
  if (mass) mass += row_id(target, sequence, end.position).row * tiles;
  for (;;) {
    const bool summed = mass && !residual;
    const auto of_tile = [&](int t) { return summed ? Wide{0, mass[t]} : weight[t]; };
    const auto of_token = [&](int t) { return weights.of(t, residual); };
    const int token = draw_by_weight(tiles, vocab, fraction, scratch, of_tile, of_token);
    if (uniform(token >= 0 || !residual)) return token;
    residual = false;
    if (!mass) weigh_tiles(weights, residual, 0, tiles, weight);
  }
}

}  // namespace

// Pass 1: the tiles' weights, where a round ends with a residual.
__global__ void __launch_bounds__(kThreads, 1)
    weight_kernel(const __grid_constant__ JudgeParams p) {
  __shared__ JudgeScratch scratch;
  __shared__ Weights weights;
  const int64_t sequence = blockIdx.x;
  const RoundEnd end = end_of_round(p.round, sequence, scratch);
  if (!needs_weights(p.round, end.end)) return;
  find_weights(p.round, sequence, end, weights);
  const int first = int(blockIdx.y) * kTilesPerChunk, tiles = p.round.rows.target.tiles();
  const int last = first + kTilesPerChunk < tiles ? first + kTilesPerChunk : tiles;
  weigh_tiles(weights, end.end == End::kResidual, first, last, p.tile_weight + sequence * tiles);
}

// Pass 2: the token drawn from them, and what the call returns. A block a sequence.
__global__ void __launch_bounds__(kThreads, 1) pick_kernel(const __grid_constant__ JudgeParams p) {
  __shared__ JudgeScratch scratch;
  __shared__ Weights weights;
  __shared__ PickScratch pick;
  const int64_t sequence = blockIdx.x, drafts = p.round.drafted.length;
  const RoundEnd end = end_of_round(p.round, sequence, scratch);
  int token;
  if (end.end == End::kFirstMaximum) {
    const RowGroup& target = p.round.rows.target;
    const RowId id = row_id(target, sequence, end.position);
    token = first_maximum(target, id.row, scanned_row(target, id, filter_of(target, sequence)));
  } else {
    find_weights(p.round, sequence, end, weights);
    token = draw_end(p, sequence, end, weights, pick);
  }
  if (threadIdx.x == 0) p.accept_length[sequence] = end.position;
  if (threadIdx.x == 0 && p.next_token) p.next_token[sequence] = token;
  if (!p.out) return;
  for (int64_t i = threadIdx.x; i <= drafts; i += kThreads) {
    const int64_t value =
        i < end.position ? p.round.drafted.at(sequence, i) : (i == end.position ? token : -1);
    p.out[sequence * (drafts + 1) + i] = value;
  }
}

cudaError_t judge(const JudgeParams& params, cudaStream_t stream) {
  const RowGroup& target = params.round.rows.target;
  if (params.tile_weight) {
    const Grid chunks{target.sequences, target.chunks(), 1};
    RETURN_IF_FAILED(launch(weight_kernel, chunks, kThreads, stream, params));
  }
  return launch(pick_kernel, Grid{target.sequences, 1, 1}, kThreads, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
