// SPDX-License-Identifier: Apache-2.0
// The rows of a call, and what the passes over them leave in the workspace for those that follow.
#pragma once

#include "common/logprob.h"
#include "common/params.h"
#include "common/prefix_filter.h"
#include "common/winner.h"
#include "cuda/launch.cuh"

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

// How a row's values become masses.
struct Masses {
  bool probabilities, infinite;  // of probabilities: +inf entries share the row
  int exponent;                  // probabilities: in units of 2^(exponent - 43)
  MassScale scale;               // logits

  __device__ __forceinline__ uint64_t of(float x) const {
    return probabilities ? probability_mass(x, infinite, exponent) : mass(x, scale);
  }
};

// requires a row that is not empty, T > 0
__device__ __forceinline__ Masses masses_of_logits(float max, float temperature) {
  return {false, false, 0, mass_scale(max, temperature)};
}
__device__ __forceinline__ Masses masses_of_probabilities(float largest, bool normalized) {
  if (normalized) return {true, false, 0, {}};
  return {true, largest == kInfinity, probability_exponent(largest), {}};
}

// A row's law.
struct RowLaw {
  Masses masses;
  LogitCut cut;         // of logits
  bool holds_infinity;  // of logits
  uint64_t total;       // of the masses of what the cut keeps
};

// The rows of one model in one call. Buffers that a call does not need are nullptr.
struct RowGroup {
  Logits logits;
  int64_t sequences, positions;
  bool probabilities;  // ready probabilities: no filter, no penalty
  FilterSet filter;
  Tokens drafted;  // position i has seen the first i of them

  float* tile_max;         // [rows, tiles]
  uint32_t* penalised;     // [rows, chunks * kChunk / 32] bits
  Winner* chunk_winner;    // [rows, chunks]
  StripMass* plain_strip;  // [rows, strips] of the logits as they were given, at temperature 1
  uint64_t* bin_mass;      // [rows, kBins]
  uint64_t* tile_mass;     // [rows, tiles]
  RowLaw* law;             // [rows]
  Cut* cut;                // [rows]

  // Of the target.
  uint32_t* arrived;        // [rows] blocks that have summed the row, or the draft's
  int32_t* first_rejected;  // [sequences] the earliest position known to be rejected

  // ceil(vocab / share), in 32 bits as vocab is at most 2^20.
  HOST_DEVICE_MEMBER int vocab_over(int share) const {
    return int((uint32_t(logits.vocab) + uint32_t(share) - 1) / uint32_t(share));
  }
  HOST_DEVICE_MEMBER int64_t rows() const { return sequences * positions; }
  HOST_DEVICE_MEMBER int tiles() const { return vocab_over(kTile); }
  HOST_DEVICE_MEMBER int chunks() const { return vocab_over(kChunk); }
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

// The rows of a call: of the target alone, or of the draft too, at one position less.
struct RowPair {
  RowGroup target, draft;  // draft.positions may be 0
};

// The grids of passes over the chunks, and over the rows.
inline Grid chunks_of(const RowPair& rows) {
  const int target = rows.target.chunks(), draft = rows.draft.chunks();
  return {rows.target.sequences, target > draft ? target : draft,
          rows.target.positions + rows.draft.positions};
}
inline Grid rows_of(const RowPair& rows) {
  return {rows.target.sequences, 1, rows.target.positions + rows.draft.positions};
}

}  // namespace cuda
}  // namespace spec_decode_ops
