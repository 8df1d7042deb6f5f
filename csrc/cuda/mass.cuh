// SPDX-License-Identifier: Apache-2.0
// The second pass over a row, where a row's mass is needed (common/mass.h): the masses of its tiles
// and chunks as integers, whose sum does not depend on how the row is split.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

enum class MassOf : int32_t {
  kLaw,     // what the row's cut keeps, of rows that are not greedy
  kWinner,  // all tokens and those before the row's winner, of rows that ask afterwards
};

struct MassParams {
  RowGroup target, draft;  // draft.positions may be 0
  MassOf of;
};

// After the scan, and after the cuts if there are any.
cudaError_t sum_masses(const MassParams& params, cudaStream_t stream);

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

// The draw over all tokens of a row whose chunks have drawn, in every lane: where the row holds
// +inf, only chunks that do take part. By a warp.
__device__ __forceinline__ Winner row_winner(const RowGroup& group, int64_t row, float raw_max) {
  Winner best = no_winner();
  for (int c = lane_of_thread(); c < group.chunks(); c += kWarp) {
    const int64_t chunk = row * group.chunks() + c;
    if (raw_max == kInfinity && group.chunk_max[chunk] < kInfinity) continue;
    best.meet(group.chunk_winner[chunk].score, group.chunk_winner[chunk].token);
  }
  return warp_best(best);
}

}  // namespace cuda
}  // namespace spec_decode_ops
