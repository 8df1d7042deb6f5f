// SPDX-License-Identifier: Apache-2.0
#include "cuda/mass.cuh"

#include <cuda/atomic>

#include "cuda/logit_cut.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

template <class T>
using Shared = ::cuda::atomic_ref<T, ::cuda::thread_scope_device>;

struct MassScratch {
  bool sums, cuts;
  Row row;
  RowLaw law;
};

// What all of the row's blocks need to know of it. By the first warp, while the logits are on their
// way or, of a row that may be cut, before it is known which of them matter; the row's first block
// leaves its law.
__device__ __forceinline__ void find_law(const RowGroup& group, const ChunkPlace& at,
                                         MassScratch& scratch) {
  const Filter filter = filter_of(group, at.id.sequence);
  const ScannedRow scanned = scanned_row(group, at.id, filter);
  const bool sums = group.probabilities || !greedy(filter);
  const bool cuts = sums && group.cut && !keeps_everything(filter, group.logits.vocab);
  RowLaw law{{}, {-kInfinity, -kInfinity, 0}, scanned.row.infinite};
  if (uniform(group.probabilities)) {
    law.masses = masses_of_probabilities(scanned.raw_max, false);
  } else if (uniform(sums)) {
    const bool empty = scanned.max == -kInfinity;
    law.masses = masses_of_logits(empty ? 0.0f : scanned.max, filter.temperature);
  }
  if (uniform(cuts)) law.cut = logit_cut(group.cut[at.id.row], filter.temperature);
  if (lane_of_thread() != 0) return;
  scratch.sums = sums;
  scratch.cuts = cuts;
  scratch.row = scanned.row;
  scratch.law = law;
  if (at.chunk == 0) group.law[at.id.row] = law;
}

// The mass of the warp's i-th tile, in every lane.
__device__ __forceinline__ uint64_t tile_mass(const float (&x)[kTokensPerThread], int i,
                                              const MassScale& scale) {
  uint32_t units = 0;
  int32_t rest = 0;
#pragma unroll
  for (int j = i * kLoadsPerTile; j < (i + 1) * kLoadsPerTile; ++j) {
    const float e = weight(x[j], scale);
    units += uint32_t(mass_units(e));
    rest += mass_rest(e);
  }
  return warp_mass(units, rest);
}

__device__ __forceinline__ uint64_t probability_tile(const float (&x)[kTokensPerThread], int i,
                                                     const Masses& masses) {
  uint64_t sum = 0;
#pragma unroll
  for (int j = i * kLoadsPerTile; j < (i + 1) * kLoadsPerTile; ++j) {
    sum += probability_mass(x[j], masses.infinite, masses.exponent);
  }
  return warp_sum(sum);
}

// `mass_of(i)` is that of the warp's i-th tile.
template <class MassOf>
__device__ __forceinline__ void keep_masses(const RowGroup& group, const ChunkPlace& at,
                                            MassOf mass_of) {
  uint64_t mine = 0;
#pragma unroll
  for (int i = 0; i < kTilesPerStrip; ++i) {
    const uint64_t tile = mass_of(i);
    mine = lane_of_thread() == i ? tile : mine;
  }
  keep_tiles(group, at, mine, group.tile_mass);
}

__device__ __forceinline__ void sum_strip(const RowGroup& group, const ChunkPlace& at,
                                          const MassScratch& scratch,
                                          float (&x)[kTokensPerThread]) {
  if (group.probabilities) {
    keep_masses(group, at, [&](int i) { return probability_tile(x, i, scratch.law.masses); });
    return;
  }
  settle(scratch.row, at.first, x);
  if (uniform(scratch.cuts)) drop(scratch.law.cut, at, x);
  const MassScale scale = scratch.law.masses.scale;
  keep_masses(group, at, [&](int i) { return tile_mass(x, i, scale); });
}

// Whether the sequence is known to end before this position, the same in all threads.
__device__ __forceinline__ bool ends_before(const Round& round, int64_t position) {
  bool ends = false;
  if (threadIdx.x == 0) {
    Shared<int32_t> first(round.rows.target.first_rejected[blockIdx.x]);
    ends = first.load(::cuda::memory_order_relaxed) < position;
  }
  return __syncthreads_or(ends);
}

// Whether this was the last block to sum the position. By the first warp.
__device__ __forceinline__ bool is_last(const RowPair& rows, const RowId& id) {
  bool last = false;
  if (lane_of_thread() == 0) {
    const int64_t drafts = rows.draft.positions;
    const int blocks = rows.target.chunks() + (id.position < drafts ? rows.draft.chunks() : 0);
    Shared<uint32_t> arrived(rows.target.arrived[id.row]);
    last = int(arrived.fetch_add(1, ::cuda::memory_order_acq_rel)) == blocks - 1;
  }
  __syncwarp();  // what lane 0 has acquired, all lanes may read
  return uniform(last);
}

// Leaves the total of a row whose tiles are summed. By a warp.
__device__ __forceinline__ void keep_total(const RowGroup& group, int64_t row) {
  const uint64_t* tile = group.tile_mass + row * group.tiles();
  uint64_t sum = 0;
#pragma unroll 4
  for (int t = lane_of_thread(); t < group.tiles(); t += kWarp) sum += tile[t];
  sum = warp_sum(sum);
  if (lane_of_thread() == 0) group.law[row].total = sum;
}

// What becomes of a position whose rows are summed. By a warp.
__device__ __forceinline__ void judge_position(const Round& round, const RowId& id) {
  const RowPair& rows = round.rows;
  if (!judged_greedily(round, id.sequence)) {
    keep_total(rows.target, id.row);
    if (id.position < rows.draft.positions) keep_total(rows.draft, id.row);
    __syncwarp();
  }
  if (id.position == round.drafted.length) return;
  End end;
  if (uniform(accepts_draft(round, id.sequence, id.position, end))) return;
  if (lane_of_thread() == 0) {
    Shared<int32_t> first(rows.target.first_rejected[id.sequence]);
    first.fetch_min(int32_t(id.position), ::cuda::memory_order_relaxed);
  }
}

__device__ __forceinline__ void sum_chunk(const Round& round, const GroupPosition& z,
                                          MassScratch& scratch) {
  const RowGroup& group = z.of_draft ? round.rows.draft : round.rows.target;
  const ChunkPlace at = chunk_place(group, z.position);
  if (at.chunk >= group.chunks()) return;  // the other group has more
  if (ends_before(round, z.position)) return;
  float x[kTokensPerThread];
  if (!group.cut) load_chunk(plain_row(group, at.id), at.chunk, at.first, x);
  if (uniform_warp() == 0) find_law(group, at, scratch);
  __syncthreads();
  if (uniform(scratch.sums)) {
    const bool cuts = uniform(scratch.cuts);
    const uint32_t tiles = cuts ? kept_tiles(group, at, scratch.row, scratch.law.cut) : kAllTiles;
    if (group.cut && tiles) load_chunk(scratch.row, at.chunk, at.first, x, tiles);
    if (tiles) {
      sum_strip(group, at, scratch, x);
    } else {
      keep_tiles(group, at, uint64_t(0), group.tile_mass);
    }
  }
  __syncthreads();
  if (uniform_warp() == 0 && is_last(round.rows, at.id)) judge_position(round, at.id);
}

}  // namespace

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    mass_kernel(const __grid_constant__ Round round) {
  __shared__ MassScratch scratch;
  sum_chunk(round, group_position(round.rows), scratch);
}

cudaError_t sum_masses(const Round& round, cudaStream_t stream) {
  return launch(mass_kernel, chunks_of(round.rows), kThreads, stream, round);
}

}  // namespace cuda
}  // namespace spec_decode_ops
