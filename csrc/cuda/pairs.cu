// SPDX-License-Identifier: Apache-2.0
#include "cuda/pairs.cuh"

#include "cuda/round_end.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

// The weights' factors in 20 bits, rounded down, in one unit. With masses of 44 bits their products
// fit in 64, and they tell whether a token has a weight unless p and q are within 2^-18 of equal.
struct RoughWeights {
  uint32_t of_p, of_q;

  __device__ __forceinline__ bool surely_keeps(uint64_t p, uint64_t q) const {
    return p * of_p >= q * of_q + q;
  }
  __device__ __forceinline__ bool surely_drops(uint64_t p, uint64_t q) const {
    return p * of_p + p <= q * of_q;
  }
};

constexpr int kRoughBits = 20;

// a / 2^bits. requires 44 <= bits < 128 and a < 2^(bits + 20)
__device__ __forceinline__ uint32_t top_of(Wide a, int bits) {
  if (bits >= 64) return uint32_t(a.high >> (bits - 64));
  return uint32_t(a.high << (64 - bits) | a.low >> bits);
}

// requires of_q >= 2^63, as it is of a law with a mass
__device__ __forceinline__ RoughWeights rough_weights(const BlockWeights& weights) {
  const Wide larger = less(weights.of_p, weights.of_q) ? weights.of_q : weights.of_p;
  const int zeros = larger.high ? __clzll(int64_t(larger.high)) : 64 + __clzll(int64_t(larger.low));
  const int bits = 128 - kRoughBits - zeros;
  return {top_of(weights.of_p, bits), top_of(weights.of_q, bits)};
}

struct PairScratch {
  JudgeScratch end;
  Law target, draft;
  BlockWeights weights;
  RoughWeights rough;
};

// A row pair to sum or, with a share of 0, a target's row for its own law.
struct Wanted {
  RowId id;
  uint64_t share;
  bool is_wanted;
};

// What this block is to sum, in every thread. By the block.
__device__ __forceinline__ Wanted wanted_pair(const PairParams& p, PairScratch& scratch) {
  const RowGroup& target = p.round.rows.target;
  const int64_t sequence = blockIdx.x;
  if (p.round.block) {
    const RowId id = row_id(target, sequence, blockIdx.z);
    const Reach reach = p.block.reach[sequence];
    const bool ends_here = reach.lowest == reach.drafted && reach.drafted == id.position;
    const uint64_t share = share_to_sum(p.block, id);
    return {id, share, uniform(share != 0 || (ends_here && p.round.normalized))};
  }
  const RoundEnd end = end_of_round(p.round, sequence, scratch.end);
  const RowId id = row_id(target, sequence, end.position);
  const bool own = end.end == End::kOwnLaw && p.round.normalized;
  const bool residual = end.end == End::kResidual;
  return {id, residual ? kWholeShare : 0, residual || own};
}

// What all of the block needs to know of the pair. By the first warp.
__device__ __forceinline__ void find_pair(const Round& round, const Wanted& wanted,
                                          PairScratch& scratch) {
  const RowId& id = wanted.id;
  const Law target = law_of(round.rows.target, id, round.normalized);
  Law draft = one_token(-1);
  if (wanted.share) draft = draft_law(round, id, int(round.drafted.at(id.sequence, id.position)));
  if (lane_of_thread() != 0) return;
  scratch.target = target;
  scratch.draft = draft;
  scratch.weights = block_weights(wanted.share, target.total, draft.total);
  scratch.rough = rough_weights(scratch.weights);
}

// The sum over the lanes. requires a sum below 2^54
__device__ __forceinline__ uint64_t warp_sum_of_masses(uint64_t x) {
  const uint32_t units = __reduce_add_sync(kAllLanes, uint32_t(x >> 22));
  const uint32_t rest = __reduce_add_sync(kAllLanes, uint32_t(x) & 0x3fffffu);
  return join_mass(units, rest);
}

// Of a lane's tokens that the rough weights cannot judge: those that are kept.
__device__ __forceinline__ PairSum sum_unsure(uint32_t unsure, const uint64_t (&p)[kLoadsPerTile],
                                              const uint64_t (&q)[kLoadsPerTile],
                                              const BlockWeights& weights) {
  PairSum sum{0, 0};
  for (; unsure; unsure &= unsure - 1) {
    const int at = __ffs(int(unsure)) - 1;
    PairSum mass{p[0], q[0]};
#pragma unroll
    for (int j = 1; j < kLoadsPerTile; ++j) mass = j == at ? PairSum{p[j], q[j]} : mass;
    if (keeps(weights, mass.p, mass.q)) sum = add(sum, mass);
  }
  return sum;
}

// Of the warp's i-th tile, in every lane.
template <class MassOfTarget, class MassOfDraft>
__device__ __forceinline__ PairSum sum_tile(const float (&x)[kTokensPerThread],
                                            const float (&z)[kTokensPerThread], int i,
                                            const PairScratch& scratch, const RoughWeights& rough,
                                            MassOfTarget mass_of_target,
                                            MassOfDraft mass_of_draft) {
  uint64_t p[kLoadsPerTile], q[kLoadsPerTile];
  PairSum sum{0, 0};
  uint32_t unsure = 0;
#pragma unroll
  for (int j = 0; j < kLoadsPerTile; ++j) {
    p[j] = mass_of_target(x[i * kLoadsPerTile + j]);
    q[j] = mass_of_draft(z[i * kLoadsPerTile + j]);
    const bool kept = rough.surely_keeps(p[j], q[j]);
    sum = add(sum, {kept ? p[j] : 0, kept ? q[j] : 0});
    unsure |= uint32_t(!kept && !rough.surely_drops(p[j], q[j])) << j;
  }
  if (unsure) sum = add(sum, sum_unsure(unsure, p, q, scratch.weights));
  return {warp_sum_of_masses(sum.p), warp_sum_of_masses(sum.q)};
}

// `sum_of(i)` is that of the warp's i-th tile.
template <class SumOf>
__device__ __forceinline__ void keep_sums(int tiles, int first_tile, PairSum* out, SumOf sum_of) {
  PairSum mine{0, 0};
#pragma unroll
  for (int i = 0; i < kTilesPerStrip; ++i) {
    const PairSum tile = sum_of(i);
    mine = lane_of_thread() == i ? tile : mine;
  }
  const int tile = first_tile + lane_of_thread();
  if (lane_of_thread() < kTilesPerStrip && tile < tiles) out[tile] = mine;
}

// Where the row ends before this chunk there is nothing to settle.
__device__ __forceinline__ void settle_logits(const RowGroup& group, const Law& law,
                                              const ChunkPlace& at, float (&x)[kTokensPerThread]) {
  if (at.chunk >= group.chunks()) return;
  settle(law.row, at.first, x);
  if (group.cut) drop(law.cut, at, x);
}

// Those of the warp's tiles whose pairs are read: of a target that is cut, where it has a mass.
// With top-k they are no more than k.
__device__ __forceinline__ uint32_t tiles_with_mass(const RowGroup& target, const ChunkPlace& at) {
  if (!target.cut) return kAllTiles;
  const uint64_t* mass = target.tile_mass + at.id.row * target.tiles();
  return tiles_of_strip(target, at, [&](int t) { return mass[t] != 0; });
}

// Takes a token out, of which p <= q as the draft is that token.
__device__ __forceinline__ void spare(int token, int first, float (&x)[kTokensPerThread]) {
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) x[j] = first + kWarp * j == token ? -kInfinity : x[j];
}

// The rows' strips, x of the target and z of the draft, into sums by tile.
__device__ __forceinline__ void sum_strip(const RowPair& rows, const ChunkPlace& at,
                                          const PairScratch& scratch, float (&x)[kTokensPerThread],
                                          float (&z)[kTokensPerThread], PairSum* out) {
  const Masses of_target = scratch.target.masses, of_draft = scratch.draft.masses;
  const RoughWeights rough = scratch.rough;
  const int tiles = rows.target.tiles(), first_tile = at.strip * kTilesPerStrip;
  if (rows.target.probabilities) {
    const auto target_mass = [&](float v) {
      return probability_mass(v, of_target.infinite, of_target.exponent);
    };
    const auto draft_mass = [&](float v) {
      return probability_mass(v, of_draft.infinite, of_draft.exponent);
    };
    keep_sums(tiles, first_tile, out,
              [&](int i) { return sum_tile(x, z, i, scratch, rough, target_mass, draft_mass); });
    return;
  }
  settle_logits(rows.target, scratch.target, at, x);
  settle_logits(rows.draft, scratch.draft, at, z);
  const auto target_mass = [&](float v) { return mass(v, of_target.scale); };
  const auto draft_mass = [&](float v) { return mass(v, of_draft.scale); };
  keep_sums(tiles, first_tile, out,
            [&](int i) { return sum_tile(x, z, i, scratch, rough, target_mass, draft_mass); });
}

}  // namespace

__global__ void __launch_bounds__(kThreads, 2) pair_kernel(const __grid_constant__ PairParams p) {
  __shared__ PairScratch scratch;
  const RowPair& rows = p.round.rows;
  const Wanted wanted = wanted_pair(p, scratch);
  if (!wanted.is_wanted) return;
  const RowId& id = wanted.id;
  const ChunkPlace at = chunk_place(rows.target, id.position);
  const uint32_t tiles = tiles_with_mass(rows.target, at);
  float x[kTokensPerThread], z[kTokensPerThread];
  load_chunk(plain_row(rows.target, id), at.chunk, at.first, x, tiles);
  const bool drafted = wanted.share && rows.draft.positions;
  if (uniform(drafted)) {
    const RowId of_draft = row_id(rows.draft, id.sequence, id.position);
    load_chunk(plain_row(rows.draft, of_draft), at.chunk, at.first, z, tiles);
  } else {
    leave_out(0, 0, z);
  }
  if (uniform_warp() == 0) find_pair(p.round, wanted, scratch);
  __syncthreads();
  PairSum* sums = p.pairs.of(rows.target, id);
  if (!tiles) {
    keep_sums(rows.target.tiles(), at.strip * kTilesPerStrip, sums,
              [](int) { return PairSum{0, 0}; });
    return;
  }
  if (!drafted) spare(scratch.draft.token, at.first, x);
  sum_strip(rows, at, scratch, x, z, sums);
}

cudaError_t sum_pairs(const PairParams& params, cudaStream_t stream) {
  const RowGroup& target = params.round.rows.target;
  const Grid grid{target.sequences, target.chunks(), params.pairs.positions};
  return launch(pair_kernel, grid, kThreads, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
