// SPDX-License-Identifier: Apache-2.0
#include "cuda/judge.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

struct Fractions {
  uint64_t accept, residual, bonus;
};

__device__ __forceinline__ Fractions fractions(const JudgeParams& p, int64_t sequence,
                                               int64_t position) {
  const int64_t drafts = p.drafted.length, first = sequence * (drafts + 1);
  if (p.words) {
    const uint64_t draw = uint64_t(p.words[first + drafts]);
    return {uint64_t(p.words[first + position]), draw, draw};
  }
  if (p.uniforms) {
    const uint64_t draw = fraction_of(p.uniforms[first + drafts]);
    return {fraction_of(p.uniforms[first + position]), draw, draw};
  }
  const Place place = p.noise.at(sequence);
  return {draw_fraction(place, Purpose::kAccept, uint32_t(position)),
          draw_fraction(place, Purpose::kResidual, uint32_t(position)),
          draw_fraction(place, Purpose::kBonus, uint32_t(position))};
}

__device__ __forceinline__ bool judged_greedily(const JudgeParams& p, int64_t sequence) {
  return uniform(p.target.probabilities ? p.greedy : greedy(filter_of(p.target, sequence)));
}

__device__ __forceinline__ Law draft_law(const JudgeParams& p, const RowId& id, int token) {
  return p.has_draft ? law_of(p.draft, row_id(p.draft, id.sequence, id.position), p.normalized)
                     : one_token(token);
}

// What becomes of the draft token at a position. By a warp, the same in all lanes.
__device__ __forceinline__ bool accepts_draft(const JudgeParams& p, int64_t sequence,
                                              int64_t position, End& end) {
  const int64_t drafted = p.drafted.at(sequence, position);
  const RowId id = row_id(p.target, sequence, position);
  if (judged_greedily(p, sequence)) {
    end = End::kFirstMaximum;
    const ScannedRow scanned = scanned_row(p.target, id, filter_of(p.target, sequence));
    return drafted >= 0 && first_maximum(p.target, id.row, scanned) == drafted;
  }
  end = End::kOwnLaw;
  if (uniform(!in_vocabulary(drafted, p.target.logits, p.draft.logits))) return false;
  const int token = int(drafted);
  const Law draft = draft_law(p, id, token);
  const uint64_t q = draft.of(token);
  if (uniform(q == 0)) return false;
  end = End::kResidual;
  const Law target = law_of(p.target, id, p.normalized);
  const uint64_t u = fractions(p, sequence, position).accept;
  return accepts(u, target.of(token), target.total, q, draft.total);
}

// Where the sequence's round ends, in every thread. Positions are shared out over the warps.
__device__ __forceinline__ JudgeScratch end_of_round(const JudgeParams& p, int64_t sequence,
                                                     JudgeScratch& scratch) {
  const int drafts = int(p.drafted.length);
  if (threadIdx.x == 0) scratch.position = drafts;
  __syncthreads();
  End end;
#pragma unroll 1
  for (int i = uniform_warp(); i < drafts; i += kThreads / kWarp) {
    if (uniform(accepts_draft(p, sequence, i, end))) continue;
    if (lane_of_thread() == 0) atomicMin(&scratch.position, i);
    break;
  }
  __syncthreads();
  const int position = uniform(scratch.position);
  if (position == drafts) {
    end = judged_greedily(p, sequence) ? End::kFirstMaximum : End::kOwnLaw;
  }
  const int owner = position < drafts ? position % (kThreads / kWarp) : 0;
  if (int(threadIdx.x) == owner * kWarp) scratch.end = end;
  __syncthreads();
  const JudgeScratch result{position, End(uniform(int(scratch.end)))};
  __syncthreads();
  return result;
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
__device__ __forceinline__ void find_weights(const JudgeParams& p, int64_t sequence,
                                             const JudgeScratch& end, Weights& weights) {
  if (uniform_warp() == 0) {
    const RowId id = row_id(p.target, sequence, end.position);
    const Law target = law_of(p.target, id, p.normalized);
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
__device__ __forceinline__ bool needs_weights(const JudgeParams& p, End end) {
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
__device__ __forceinline__ int draw_end(const JudgeParams& p, int64_t sequence,
                                        const JudgeScratch& end, const Weights& weights,
                                        PickScratch& scratch) {
  bool residual = end.end == End::kResidual;
  const Fractions u = fractions(p, sequence, end.position);
  const uint64_t fraction = residual ? u.residual : u.bonus;
  const int tiles = p.target.tiles(), vocab = int(p.target.logits.vocab);
  Wide* weight = p.tile_weight + sequence * tiles;
  const uint64_t* mass = p.target.tile_mass;
  if (mass) mass += row_id(p.target, sequence, end.position).row * tiles;
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
  const JudgeScratch end = end_of_round(p, sequence, scratch);
  if (!needs_weights(p, end.end)) return;
  find_weights(p, sequence, end, weights);
  const int first = int(blockIdx.y) * kTilesPerChunk, tiles = p.target.tiles();
  const int last = first + kTilesPerChunk < tiles ? first + kTilesPerChunk : tiles;
  weigh_tiles(weights, end.end == End::kResidual, first, last, p.tile_weight + sequence * tiles);
}

// Pass 2: the token drawn from them, and what the call returns. A block a sequence.
__global__ void __launch_bounds__(kThreads, 1) pick_kernel(const __grid_constant__ JudgeParams p) {
  __shared__ JudgeScratch scratch;
  __shared__ Weights weights;
  __shared__ PickScratch pick;
  const int64_t sequence = blockIdx.x, drafts = p.drafted.length;
  const JudgeScratch end = end_of_round(p, sequence, scratch);
  int token;
  if (end.end == End::kFirstMaximum) {
    const RowId id = row_id(p.target, sequence, end.position);
    token =
        first_maximum(p.target, id.row, scanned_row(p.target, id, filter_of(p.target, sequence)));
  } else {
    find_weights(p, sequence, end, weights);
    token = draw_end(p, sequence, end, weights, pick);
  }
  if (threadIdx.x == 0) p.accept_length[sequence] = end.position;
  if (threadIdx.x == 0 && p.next_token) p.next_token[sequence] = token;
  if (!p.out) return;
  for (int64_t i = threadIdx.x; i <= drafts; i += kThreads) {
    const int64_t value =
        i < end.position ? p.drafted.at(sequence, i) : (i == end.position ? token : -1);
    p.out[sequence * (drafts + 1) + i] = value;
  }
}

cudaError_t judge(const JudgeParams& params, cudaStream_t stream) {
  if (params.tile_weight) {
    const Grid chunks{params.target.sequences, params.target.chunks(), 1};
    RETURN_IF_FAILED(launch(weight_kernel, chunks, kThreads, stream, params));
  }
  return launch(pick_kernel, Grid{params.target.sequences, 1, 1}, kThreads, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
