// SPDX-License-Identifier: Apache-2.0
#include "cuda/scan.cuh"

#include "cuda/draw.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

struct ScanScratch {
  uint32_t penalised[kChunk / 32];
  Scratch<uint32_t, kThreads> maxima;
  DrawScratch draw;
};

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

// Leaves the tiles' maxima; returns the chunk's, in every thread. Maxima are taken among keys,
// which a warp reduces in one instruction.
__device__ __forceinline__ float keep_maxima(const RowGroup& group, const ChunkPlace& at,
                                             const float (&x)[kTokensPerThread],
                                             ScanScratch& scratch) {
  constexpr int kTiles = kTokensPerThread / kLoadsPerTile;
  uint32_t largest = 0, mine = 0;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    float tile = -kInfinity;
#pragma unroll
    for (int j = 0; j < kLoadsPerTile; ++j) tile = fmaxf(tile, x[i * kLoadsPerTile + j]);
    const uint32_t key = __reduce_max_sync(kAllLanes, order_key(tile));
    mine = lane_of_thread() == i ? key : mine;
    largest = key > largest ? key : largest;
  }
  const int index = at.chunk * kTilesPerChunk + warp_of_thread() * kTiles + lane_of_thread();
  if (lane_of_thread() < kTiles && index < group.tiles()) {
    group.tile_max[at.id.row * group.tiles() + index] = key_value(mine);
  }
  const auto larger_key = [](uint32_t a, uint32_t b) { return a > b ? a : b; };
  const float chunk_max = key_value(combine_warps(largest, scratch.maxima, larger_key));
  if (threadIdx.x == 0) group.chunk_max[at.id.row * group.chunks() + at.chunk] = chunk_max;
  return chunk_max;
}

__device__ __forceinline__ void scan_chunk(const RowGroup& group, const Noise& noise,
                                           int64_t position, ScanScratch& scratch) {
  const ChunkPlace at = chunk_place(group, position);
  if (at.chunk >= group.chunks()) return;  // the other group has more
  const Filter filter = filter_of(group, at.id.sequence);
  Row row = plain_row(group, at.id);
  float x[kTokensPerThread];
  load_chunk(row, at.chunk, at.first, x);
  if (group.penalised && filter.penalty != 1.0f) {
    mark_history(group, at, scratch.penalised);
    const int first_word = warp_of_thread() * kTokensPerThread;
    penalise_all(scratch.penalised + first_word, filter.penalty, x);
    row.penalised = penalised_bits(group, at.id.row);
    row.penalty = filter.penalty;
  }
  const float largest = keep_maxima(group, at, x, scratch);
  if (!group.chunk_winner || uniform(!draws_from_all(filter, group.logits.vocab))) return;
  row.infinite = largest == kInfinity;
  if (row.infinite) {
#pragma unroll
    for (int j = 0; j < kTokensPerThread; ++j) x[j] = row.resolve(x[j]);
  }
  const Place place = place_of(noise, at.id);
  const Winner winner = draw_chunk(row, filter.temperature, place, at.chunk, x, scratch.draw);
  if (threadIdx.x == 0) group.chunk_winner[at.id.row * group.chunks() + at.chunk] = winner;
}

}  // namespace

__global__ void __launch_bounds__(kThreads, kBlocksPerSm - 1)
    scan_kernel(const __grid_constant__ ScanParams p) {
  __shared__ ScanScratch scratch;
  const int64_t position = blockIdx.z - p.target.positions;
  const bool of_target = position < 0;
  scan_chunk(of_target ? p.target : p.draft, p.noise, of_target ? blockIdx.z : position, scratch);
}

cudaError_t scan(const ScanParams& params, cudaStream_t stream) {
  return launch(scan_kernel, chunks_of(params.target, params.draft), kThreads, stream, params);
}

}  // namespace cuda
}  // namespace spec_decode_ops
