// SPDX-License-Identifier: Apache-2.0
#include "cuda/scan.cuh"

#include "cuda/draw.cuh"
#include "cuda/strip.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

struct ScanScratch {
  float penalty;  // 1: none
  bool draws;
  uint32_t penalised[kChunk / 32];
  DrawScratch draw;
};

// What the row's parameters ask of the scan. By the first warp, while the logits are on their way.
__device__ __forceinline__ void read_parameters(const RowGroup& group, const Noise& noise,
                                                const RowId& id, ScanScratch& scratch) {
  const Filter filter = filter_of(group, id.sequence);
  const bool draws = group.chunk_winner && draws_from_all(filter, group.logits.vocab);
  if (lane_of_thread() == 0) {
    scratch.penalty = group.penalised ? filter.penalty : 1.0f;
    scratch.draws = draws;
  }
  if (uniform(draws)) begin_draw(filter.temperature, place_of(noise, id), scratch.draw);
}

__device__ void mark(const int64_t* ids, int64_t count, int64_t stride, int chunk, int vocab,
                     uint32_t* penalised) {
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const int64_t id = ids[i * stride];
    if (id < 0 || id >= vocab || id / kChunk != chunk) continue;
    const int token = int(id % kChunk);
    atomicOr(&penalised[token / 32], 1u << (token % 32));
  }
}

// Finds which of the chunk's tokens the row has seen, for this pass and those after it.
__device__ void mark_history(const RowGroup& group, const ChunkPlace& at, uint32_t* penalised) {
  for (int w = int(threadIdx.x); w < kChunk / 32; w += kThreads) penalised[w] = 0;
  __syncthreads();
  const Tokens& previous = group.filter.previous;
  const int vocab = int(group.logits.vocab);
  if (previous.ids) {
    mark(previous.row(at.id.sequence), previous.length, previous.stride, at.chunk, vocab,
         penalised);
  }
  if (group.drafted.ids) {
    mark(group.drafted.row(at.id.sequence), at.id.position, group.drafted.stride, at.chunk, vocab,
         penalised);
  }
  __syncthreads();
  uint32_t* kept = penalised_bits(group, at.id.row) + int64_t(at.chunk) * (kChunk / 32);
  for (int w = int(threadIdx.x); w < kChunk / 32; w += kThreads) kept[w] = penalised[w];
}

// The chunk's part of what later passes add to.
__device__ __forceinline__ void clear_sums(const RowGroup& group, const ChunkPlace& at) {
  if (group.bin_mass) {
    const int step = group.chunks() * kThreads;
#pragma unroll 1
    for (int b = at.chunk * kThreads + int(threadIdx.x); b < kBins; b += step) {
      group.bin_mass[at.id.row * kBins + b] = 0;
    }
  }
  if (group.arrived && at.chunk == 0 && threadIdx.x == 0) {
    group.arrived[at.id.row] = 0;
    if (at.id.position == 0) group.first_rejected[at.id.sequence] = INT32_MAX;
  }
}

// The largest logits of the warp's tiles, the i-th in tile[i] of every lane, as keys: a warp
// reduces them in one instruction.
struct Maxima {
  uint32_t tile[kTilesPerStrip];

  __device__ __forceinline__ uint32_t strip() const {
    const uint32_t a = tile[0] > tile[1] ? tile[0] : tile[1];
    const uint32_t b = tile[2] > tile[3] ? tile[2] : tile[3];
    return a > b ? a : b;
  }
};
static_assert(kTilesPerStrip == 4, "strip() compares four");

__device__ __forceinline__ Maxima find_maxima(const float (&x)[kTokensPerThread]) {
  Maxima largest;
#pragma unroll
  for (int i = 0; i < kTilesPerStrip; ++i) {
    float tile = -kInfinity;
#pragma unroll
    for (int j = 0; j < kLoadsPerTile; ++j) tile = fmaxf(tile, x[i * kLoadsPerTile + j]);
    largest.tile[i] = __reduce_max_sync(kAllLanes, order_bits(tile));
  }
  return largest;
}

__device__ __forceinline__ void keep_maxima(const RowGroup& group, const ChunkPlace& at,
                                            const Maxima& largest) {
  uint32_t mine = largest.tile[0];
#pragma unroll
  for (int i = 1; i < kTilesPerStrip; ++i) mine = lane_of_thread() == i ? largest.tile[i] : mine;
  keep_tiles(group, at, key_value(mine), group.tile_max);
}

__device__ __forceinline__ void scan_chunk(const RowGroup& group, const Noise& noise,
                                           int64_t position, ScanScratch& scratch) {
  const ChunkPlace at = chunk_place(group, position);
  if (at.chunk >= group.chunks()) return;  // the other group has more
  Row row = plain_row(group, at.id);
  float x[kTokensPerThread];
  load_chunk(row, at.chunk, at.first, x);
  clear_sums(group, at);
  if (group.plain_strip) keep_strip(group, at, strip_mass(x, 1.0f), group.plain_strip);
  const bool asks = group.penalised || group.chunk_winner;
  if (asks) {
    if (uniform_warp() == 0) read_parameters(group, noise, at.id, scratch);
    __syncthreads();
  }
  const bool draws = asks && uniform(scratch.draws);
  const uint32_t zeros = draws ? find_zero_bytes(at.chunk, scratch.draw) : 0;
  if (asks && uniform(scratch.penalty != 1.0f)) {
    mark_history(group, at, scratch.penalised);
    penalise_all(scratch.penalised + warp_of_thread() * kTokensPerThread, scratch.penalty, x);
    row.penalised = penalised_bits(group, at.id.row);
    row.penalty = scratch.penalty;
  }
  const Maxima maxima = find_maxima(x);
  keep_maxima(group, at, maxima);
  if (!draws) return;
  Winner* drawn = group.chunk_winner + at.id.row * group.chunks() + at.chunk;
  draw_chunk(row, at.chunk, maxima.strip(), zeros, x, scratch.draw, drawn);
}

}  // namespace

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    scan_kernel(const __grid_constant__ ScanParams p) {
  __shared__ ScanScratch scratch;
  const GroupPosition z = group_position(p.rows);
  scan_chunk(z.of_draft ? p.rows.draft : p.rows.target, p.noise, z.position, scratch);
}

cudaError_t scan(const ScanParams& params, cudaStream_t stream) {
  return launch(scan_kernel, chunks_of(params.rows), kThreads, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
