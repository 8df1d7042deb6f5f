// SPDX-License-Identifier: Apache-2.0
// One row of logits as the kernels see it: float32 values whatever the row's dtype, length,
// alignment and penalties; and the part of it that a block of a pass over all rows holds.
#pragma once

#include "common/order.h"
#include "cuda/group.cuh"
#include "cuda/reduce.cuh"

namespace spec_decode_ops {
namespace cuda {

__device__ __forceinline__ float widen_half(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

// One row. `at` gives a token's logit after the penalty; where the row holds +inf, its +inf tokens
// count as 0 and all others as -inf.
struct Row {
  const char* data;
  DType dtype;
  int vocab;
  const uint32_t* penalised;  // one bit a token, or nullptr
  float penalty;
  bool infinite;

  // requires 0 <= token < vocab
  __device__ __forceinline__ float raw(int token) const {
    if (dtype == DType::kFloat32) return reinterpret_cast<const float*>(data)[token];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(data)[token];
    return dtype == DType::kFloat16 ? widen_half(bits) : widen(BFloat16{bits});
  }

  __device__ __forceinline__ float resolve(float x) const {
    if (!infinite) return x;
    return x == kInfinity ? 0.0f : -kInfinity;
  }

  // requires the bits; past the vocabulary none is set
  __device__ __forceinline__ bool is_penalised(int token) const {
    return penalised[token / 32] >> (token % 32) & 1;
  }

  __device__ __forceinline__ float at(int token) const {
    float x = raw(token);
    if (penalised && is_penalised(token)) x = penalise(x, penalty);
    return resolve(x);
  }
};

// The row before anything is known of its largest logit or penalised tokens.
__device__ __forceinline__ Row plain_row(const RowGroup& group, const RowId& id) {
  const Logits& logits = group.logits;
  const int64_t element = logits.dtype == DType::kFloat32 ? 4 : 2;
  const int64_t offset = id.sequence * logits.row_stride + id.position * logits.position_stride;
  return {static_cast<const char*>(logits.data) + offset * element,
          logits.dtype,
          int(logits.vocab),
          nullptr,
          1.0f,
          false};
}

__device__ __forceinline__ uint32_t* penalised_bits(const RowGroup& group, int64_t row) {
  return group.penalised + row * (int64_t(group.chunks()) * (kChunk / 32));
}

// A thread's tokens of a chunk in registers: x[j] is the logit of token `first + 32 j`, -inf past
// the vocabulary and in tiles of the strip that are not asked for. All loads are issued before the
// first is used. Only the row's last chunk looks where it ends.
template <class Logit>
__device__ __forceinline__ void load_whole(const Logit* from, Logit (&bits)[kTokensPerThread]) {
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) bits[j] = from[kWarp * j];
}

// Whether the j-th load is of the first `count` tokens, and of one of the tiles.
__device__ __forceinline__ bool loads(int j, int count, uint32_t tiles) {
  return kWarp * j < count && (tiles >> j / kLoadsPerTile & 1);
}

template <class Logit>
__device__ __forceinline__ void load_some(const Logit* from, int count, uint32_t tiles,
                                          Logit (&bits)[kTokensPerThread]) {
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (loads(j, count, tiles)) bits[j] = from[kWarp * j];
  }
}

__device__ __forceinline__ void leave_out(int count, uint32_t tiles, float (&x)[kTokensPerThread]) {
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (!loads(j, count, tiles)) x[j] = -kInfinity;
  }
}

__device__ __forceinline__ void load_16_bits(const Row& row, int first, bool whole, uint32_t tiles,
                                             float (&x)[kTokensPerThread]) {
  const uint16_t* from = reinterpret_cast<const uint16_t*>(row.data) + first;
  uint16_t bits[kTokensPerThread] = {};
  if (whole) {
    load_whole(from, bits);
  } else {
    load_some(from, row.vocab - first, tiles, bits);
  }
  if (row.dtype == DType::kFloat16) {
#pragma unroll
    for (int j = 0; j < kTokensPerThread; ++j) x[j] = widen_half(bits[j]);
  } else {
#pragma unroll
    for (int j = 0; j < kTokensPerThread; ++j) x[j] = widen(BFloat16{bits[j]});
  }
}

__device__ __forceinline__ void load_chunk(const Row& row, int chunk, int first,
                                           float (&x)[kTokensPerThread],
                                           uint32_t tiles = kAllTiles) {
  const bool whole = (chunk + 1) * kChunk <= row.vocab && tiles == kAllTiles;
  if (row.dtype == DType::kFloat32) {
    const float* from = reinterpret_cast<const float*>(row.data) + first;
    if (whole) {
      load_whole(from, x);
    } else {
      load_some(from, row.vocab - first, tiles, x);
    }
  } else {
    load_16_bits(row, first, whole, tiles, x);
  }
  if (!whole) leave_out(row.vocab - first, tiles, x);
}

// Replaces those of a lane's values whose bit is set in `which`. They are few, so that one copy of
// `change` serves all.
template <int kCount, class Change>
__device__ __forceinline__ void for_those(uint32_t which, float (&x)[kCount], Change change) {
  for (; which; which &= which - 1) {
    const int at = __ffs(int(which)) - 1;
    float value = x[0];
#pragma unroll
    for (int j = 1; j < kCount; ++j) value = j == at ? x[j] : value;
    value = change(value);
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] = j == at ? value : x[j];
  }
}

// Penalises the tokens whose bit is set: word j is of the warp's j-th 32 tokens.
template <int kCount>
__device__ __forceinline__ void penalise_all(const uint32_t* words, float penalty,
                                             float (&x)[kCount]) {
  uint32_t mine = 0;
#pragma unroll
  for (int j = 0; j < kCount; ++j) mine |= (words[j] >> lane_of_thread() & 1) << j;
  for_those(mine, x, [&](float value) { return penalise(value, penalty); });
}

// Where a row holds +inf.
__device__ __forceinline__ void resolve_all(const Row& row, float (&x)[kTokensPerThread]) {
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) x[j] = row.resolve(x[j]);
}

// Makes of a chunk's logits what `at` gives. requires the row as the scan left it
__device__ __forceinline__ void settle(const Row& row, int first, float (&x)[kTokensPerThread]) {
  if (uniform(row.penalised != nullptr)) {
    penalise_all(row.penalised + first / 32, row.penalty, x);
  }
  if (uniform(row.infinite)) resolve_all(row, x);
}

// The group and position of blockIdx.z. Position-major: a row comes before those of all later
// positions, and the target's before the draft's.
struct GroupPosition {
  bool of_draft;
  int64_t position;
};

__device__ __forceinline__ GroupPosition group_position(const RowPair& rows) {
  if (rows.draft.positions == 0) return {false, blockIdx.z};
  return {blockIdx.z % 2 != 0, blockIdx.z / 2};
}

// A block of a pass over chunks: of sequence blockIdx.x, chunk blockIdx.y.
struct ChunkPlace {
  RowId id;
  int chunk, strip;  // the strip is this warp's
  int first;         // of this thread's tokens, 32 apart
};

__device__ __forceinline__ ChunkPlace chunk_place(const RowGroup& group, int64_t position) {
  const int chunk = int(blockIdx.y), strip = chunk * kStripsPerChunk + warp_of_thread();
  return {row_id(group, blockIdx.x, position), chunk, strip, strip * kStrip + lane_of_thread()};
}

// Those of the strip in which the tie class of the cut ends.
__device__ __forceinline__ void drop_ties(const LogitCut& cut, int first,
                                          float (&x)[kTokensPerThread]) {
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (!cut.holds(x[j], first + kWarp * j)) x[j] = -kInfinity;
  }
}

// Makes -inf of what the cut drops: all tokens of a strip before `id` face one bound, all those of
// a strip after it the other.
__device__ __forceinline__ void drop(const LogitCut& cut, const ChunkPlace& at,
                                     float (&x)[kTokensPerThread]) {
  const int begin = at.strip * kStrip, end = begin + kStrip;
  if (uniform(begin < cut.id && cut.id < end)) return drop_ties(cut, at.first, x);
  const float bound = end <= cut.id ? cut.from : cut.above;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) x[j] = x[j] >= bound ? x[j] : -kInfinity;
}

// Those of the warp's tiles that `asks`, which is shown the numbers of tiles of the row.
template <class Asks>
__device__ __forceinline__ uint32_t tiles_of_strip(const RowGroup& group, const ChunkPlace& at,
                                                   Asks asks) {
  const int tile = at.strip * kTilesPerStrip + lane_of_thread();
  const bool mine = lane_of_thread() < kTilesPerStrip && tile < group.tiles();
  return __ballot_sync(kAllLanes, mine && asks(tile));
}

// Those that hold a token which the cut keeps. requires the row as the scan left it
__device__ __forceinline__ uint32_t kept_tiles(const RowGroup& group, const ChunkPlace& at,
                                               const Row& row, const LogitCut& cut) {
  const float* tile_max = group.tile_max + at.id.row * group.tiles();
  return tiles_of_strip(group, at, [&](int t) { return row.resolve(tile_max[t]) >= cut.from; });
}

// Leaves the values of the warp's tiles, of which lane i holds the i-th.
template <class T>
__device__ __forceinline__ void keep_tiles(const RowGroup& group, const ChunkPlace& at, T mine,
                                           T* tiles) {
  T* of_row = tiles + at.id.row * group.tiles();
  const int tile = at.strip * kTilesPerStrip + lane_of_thread();
  if (lane_of_thread() < kTilesPerStrip && tile < group.tiles()) of_row[tile] = mine;
}

}  // namespace cuda
}  // namespace spec_decode_ops
