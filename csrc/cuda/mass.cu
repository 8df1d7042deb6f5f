// SPDX-License-Identifier: Apache-2.0
#include "cuda/mass.cuh"

#include "cuda/scan.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

struct MassScratch {
  LogitCut cut;
  Scratch<uint64_t, kThreads> whole, part;
};

struct TwoMasses {
  uint64_t whole, counted;
};

// The masses of the warp's i-th tile, in every lane.
__device__ __forceinline__ TwoMasses tile_masses(const float (&x)[kTokensPerThread], int i,
                                                 int first, const Masses& masses,
                                                 const LogitCut& cut, bool cuts) {
  uint32_t units = 0, counted_units = 0;
  int32_t rest = 0, counted_rest = 0;
#pragma unroll
  for (int j = i * kLoadsPerTile; j < (i + 1) * kLoadsPerTile; ++j) {
    const float e = weight(x[j], masses.scale);
    const uint32_t u = uint32_t(mass_units(e));
    const int32_t r = mass_rest(e);
    units += u;
    rest += r;
    if (cuts && cut.holds(x[j], first + kWarp * j)) {
      counted_units += u;
      counted_rest += r;
    }
  }
  const uint64_t whole = warp_mass(units, rest);
  return {whole, !cuts ? whole : warp_mass(counted_units, counted_rest)};
}

__device__ __forceinline__ TwoMasses probability_tile(const float (&x)[kTokensPerThread], int i,
                                                      const Masses& masses) {
  uint64_t sum = 0;
#pragma unroll
  for (int j = i * kLoadsPerTile; j < (i + 1) * kLoadsPerTile; ++j) {
    sum += probability_mass(x[j], masses.infinite, masses.exponent);
  }
  sum = warp_sum(sum);
  return {sum, sum};
}

__device__ __forceinline__ LogitCut logit_cut(const Cut& cut, float temperature) {
  const float last = quotient(kMaxFloat, temperature);
  const float next = key_value(order_key(cut.value) + 1);
  const float from = cut.value <= last ? least_logit(cut.value, temperature) : kInfinity;
  const float above = next <= last ? least_logit(next, temperature) : kInfinity;
  return {from, above, cut.id};
}

// The cut that keeps what stands before the row's winner.
__device__ __forceinline__ Cut before_winner(const RowGroup& group, int64_t row,
                                             const ScannedRow& scanned, const Filter& filter) {
  const int token = row_winner(group, row, scanned.raw_max).token;
  return {quotient(scanned.row.at(token), filter.temperature), token};
}

__device__ __forceinline__ bool has_part(const RowGroup& group, MassOf of, const Filter& filter,
                                         const ScannedRow& scanned) {
  if (of == MassOf::kLaw) return group.probabilities || !greedy(filter);
  return asks_afterwards(filter, group.logits.vocab) && scanned.max > -kInfinity;
}

__device__ __forceinline__ void sum_chunk(const RowGroup& group, MassOf of, int64_t position,
                                          MassScratch& scratch) {
  const ChunkPlace at = chunk_place(group, position);
  if (at.chunk >= group.chunks()) return;  // the other group has more
  const Filter filter = filter_of(group, at.id.sequence);
  const ScannedRow scanned = scanned_row(group, at.id, filter);
  if (uniform(!has_part(group, of, filter, scanned))) return;
  const bool cuts = uniform(of == MassOf::kWinner ||
                            (group.cut && !keeps_everything(filter, group.logits.vocab)));
  if (uniform_warp() == 0) {
    LogitCut cut{-kInfinity, -kInfinity, 0};
    if (cuts) {
      const Cut by = of == MassOf::kWinner ? before_winner(group, at.id.row, scanned, filter)
                                           : group.cut[at.id.row];
      cut = logit_cut(by, filter.temperature);
    }
    if (lane_of_thread() == 0) scratch.cut = cut;
  }
  __syncthreads();
  const LogitCut cut = scratch.cut;
  const bool empty = scanned.max == -kInfinity;
  const Masses masses = group.probabilities
                            ? masses_of_probabilities(scanned.raw_max, false)
                            : masses_of_logits(empty ? 0.0f : scanned.max, filter.temperature);
  if (group.law && at.chunk == 0 && threadIdx.x == 0) group.law[at.id.row] = {masses.scale, cut};
  float x[kTokensPerThread];
  load_scanned_chunk(scanned.row, at.chunk, at.first, x);
  constexpr int kTiles = kTokensPerThread / kLoadsPerTile;
  TwoMasses warp{0, 0};
  uint64_t mine = 0;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const TwoMasses tile = group.probabilities ? probability_tile(x, i, masses)
                                               : tile_masses(x, i, at.first, masses, cut, cuts);
    mine = lane_of_thread() == i ? tile.counted : mine;
    warp = {warp.whole + tile.whole, warp.counted + tile.counted};
  }
  const int index = at.chunk * kTilesPerChunk + warp_of_thread() * kTiles + lane_of_thread();
  if (group.tile_mass && lane_of_thread() < kTiles && index < group.tiles()) {
    group.tile_mass[at.id.row * group.tiles() + index] = mine;
  }
  const auto sum = [](uint64_t a, uint64_t b) { return a + b; };
  const uint64_t whole = combine_warps(warp.whole, scratch.whole, sum);
  const uint64_t part = combine_warps(warp.counted, scratch.part, sum);
  if (threadIdx.x != 0) return;
  group.chunk_mass[at.id.row * group.chunks() + at.chunk] = of == MassOf::kLaw ? part : whole;
  if (of == MassOf::kWinner) group.chunk_before[at.id.row * group.chunks() + at.chunk] = part;
}

}  // namespace

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    mass_kernel(const __grid_constant__ MassParams p) {
  __shared__ MassScratch scratch;
  const int64_t position = blockIdx.z - p.target.positions;
  const bool of_target = position < 0;
  sum_chunk(of_target ? p.target : p.draft, p.of, of_target ? blockIdx.z : position, scratch);
}

cudaError_t sum_masses(const MassParams& params, cudaStream_t stream) {
  return launch(mass_kernel, chunks_of(params.target, params.draft), kThreads, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
