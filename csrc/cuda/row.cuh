// SPDX-License-Identifier: Apache-2.0
// Rows of logits as the kernels see them: float32 values whatever the row's dtype, length,
// alignment and penalties, and what the passes over a row leave in the workspace for those that
// follow.
#pragma once

#include "common/mass.h"
#include "common/order.h"
#include "common/params.h"
#include "common/prefix_filter.h"
#include "common/winner.h"
#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"

namespace spec_decode_ops {
namespace cuda {

// Which tokens of a row have a mass, in terms of logits: a cut whose tie class is [from, above).
struct LogitCut {
  float from, above;
  int32_t id;  // tokens of the tie class below this id

  HOST_DEVICE_MEMBER bool holds(float x, int token) const {
    return x >= above || (x >= from && token < id);
  }
};

// A row's law over its logits, but for the total.
struct RowLaw {
  MassScale scale;
  LogitCut cut;
};

// The rows of one model in one call. Buffers that a call does not need are nullptr.
struct RowGroup {
  Logits logits;
  int64_t sequences, positions;
  bool probabilities;  // ready probabilities: no filter, no penalty
  FilterSet filter;
  Tokens drafted;  // position i has seen the first i of them

  float* tile_max;         // [rows, tiles]
  float* chunk_max;        // [rows, chunks]
  uint32_t* penalised;     // [rows, chunks * kChunk / 32] bits
  Winner* chunk_winner;    // [rows, chunks]
  uint64_t* tile_mass;     // [rows, tiles]
  uint64_t* chunk_mass;    // [rows, chunks]
  uint64_t* chunk_before;  // [rows, chunks] the part of chunk_mass before the row's winner
  RowLaw* law;             // [rows]
  Cut* cut;                // [rows]

  HOST_DEVICE_MEMBER int64_t rows() const { return sequences * positions; }
  HOST_DEVICE_MEMBER int tiles() const { return int((logits.vocab + kTile - 1) / kTile); }
  HOST_DEVICE_MEMBER int chunks() const { return int((logits.vocab + kChunk - 1) / kChunk); }
  HOST_DEVICE_MEMBER int64_t all_chunks() const { return rows() * chunks(); }
};

// One row of a group.
struct RowId {
  int64_t sequence, position, row;  // row = position * sequences + sequence
};

__device__ __forceinline__ RowId row_id(const RowGroup& group, int64_t sequence, int64_t position) {
  return {sequence, position, position * group.sequences + sequence};
}

// What a row is sampled with.
__device__ __forceinline__ Filter filter_of(const RowGroup& group, int64_t sequence) {
  if (group.probabilities) return {1.0f, 0, 1.0, 0.0, 1.0f};
  return group.filter.at(sequence);
}

// Where a row draws: position i at offset + i.
__device__ __forceinline__ Place place_of(const Noise& noise, const RowId& id) {
  Place place = noise.at(id.sequence);
  place.offset = (place.offset + uint64_t(id.position)) % kOffsetLimit;
  return place;
}

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

// The row's largest logit, in every lane; NaN is passed over, +inf is itself. By a warp, after the
// scan.
__device__ __forceinline__ float row_maximum(const RowGroup& group, int64_t row) {
  float largest = -kInfinity;
  for (int c = lane_of_thread(); c < group.chunks(); c += kWarp) {
    largest = fmaxf(largest, group.chunk_max[row * group.chunks() + c]);
  }
  return warp_max(largest);
}

// The row as the scan left it, with the largest logit that `at` can give; -inf in an empty row.
struct ScannedRow {
  Row row;
  float max;
  float raw_max;
};

// By a warp.
__device__ __forceinline__ ScannedRow scanned_row(const RowGroup& group, const RowId& id,
                                                  const Filter& filter) {
  const float raw_max = row_maximum(group, id.row);
  Row view = plain_row(group, id);
  if (group.penalised && filter.penalty != 1.0f) {
    view.penalised = penalised_bits(group, id.row);
    view.penalty = filter.penalty;
  }
  view.infinite = raw_max == kInfinity && !group.probabilities;
  return {view, view.infinite ? 0.0f : raw_max, raw_max};
}

// The chunk's logits in registers: x[j] is that of token `first + 32 j`, -inf past the vocabulary.
// All loads are issued before the first is used; only the row's last chunk looks where it ends.
template <class Logit>
__device__ __forceinline__ void load_chunk_as(const Row& row, int first, bool whole,
                                              Logit (&bits)[kTokensPerThread]) {
  const Logit* from = reinterpret_cast<const Logit*>(row.data) + first;
  if (whole) {
#pragma unroll
    for (int j = 0; j < kTokensPerThread; ++j) bits[j] = from[kWarp * j];
  } else {
#pragma unroll
    for (int j = 0; j < kTokensPerThread; ++j) {
      if (first + kWarp * j < row.vocab) bits[j] = from[kWarp * j];
    }
  }
}

__device__ __forceinline__ void load_chunk(const Row& row, int chunk, int first,
                                           float (&x)[kTokensPerThread]) {
  const bool whole = (chunk + 1) * kChunk <= row.vocab;
  if (row.dtype == DType::kFloat32) {
    load_chunk_as(row, first, whole, x);
  } else {
    uint16_t bits[kTokensPerThread] = {};
    load_chunk_as(row, first, whole, bits);
    const bool half = row.dtype == DType::kFloat16;
#pragma unroll
    for (int j = 0; j < kTokensPerThread; ++j) {
      x[j] = half ? widen_half(bits[j]) : widen(BFloat16{bits[j]});
    }
  }
  if (whole) return;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (first + kWarp * j >= row.vocab) x[j] = -kInfinity;
  }
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

// The chunk as `at` gives it.
__device__ __forceinline__ void load_scanned_chunk(const Row& row, int chunk, int first,
                                                   float (&x)[kTokensPerThread]) {
  load_chunk(row, chunk, first, x);
  if (row.penalised) penalise_all(row.penalised + first / 32, row.penalty, x);
  if (!row.infinite) return;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) x[j] = row.resolve(x[j]);
}

// A block of a pass over chunks: of sequence blockIdx.x, chunk blockIdx.y, position blockIdx.z. A
// second group's positions come after those of the first.
struct ChunkPlace {
  RowId id;
  int chunk;
  int first;  // of this thread's tokens, 32 apart
};

__device__ __forceinline__ ChunkPlace chunk_place(const RowGroup& group, int64_t position) {
  const int chunk = int(blockIdx.y);
  const int first = chunk * kChunk + warp_of_thread() * kTokensPerWarp + lane_of_thread();
  return {row_id(group, blockIdx.x, position), chunk, first};
}

// The grid of a pass over the chunks of a group, or of two with the same sequences.
inline Grid chunks_of(const RowGroup& group) {
  return {group.sequences, group.chunks(), group.positions};
}
inline Grid chunks_of(const RowGroup& a, const RowGroup& b) {
  return {a.sequences, a.chunks() > b.chunks() ? a.chunks() : b.chunks(),
          a.positions + b.positions};
}
inline Grid rows_of(const RowGroup& group) { return {group.sequences, 1, group.positions}; }

}  // namespace cuda
}  // namespace spec_decode_ops
