// SPDX-License-Identifier: Apache-2.0
// A row's mass by distance from its largest logit, for top-p over all tokens: bins are ordered as
// logits are, so the bin at which the running mass crosses top-p's quota holds the end of the
// nucleus. Tokens clearly above it are in, those clearly below it are out, and few are between.
#pragma once

#include "cuda/scan.cuh"
#include "cuda/scanned.cuh"

namespace spec_decode_ops {
namespace cuda {

// A pass over the rows whose top-p shares all their mass, where they have bin_mass. After the scan.
cudaError_t sum_bins(const RowPair& rows, cudaStream_t stream);

// Bin b holds the logits near max - b * width; the last one all that lie lower.
struct BinScale {
  float max, width, per_logit;

  __device__ __forceinline__ int bin_of(float x) const {
    constexpr float kToInteger = 8388608.0f;  // 2^23: adding it rounds to an integer
    const float distance = fminf((max - x) * per_logit, float(kBins - 1));
    return int(float_bits(distance + kToInteger) & (kBins - 1));
  }
};

// Bins reach as far as there is mass, and on flatter rows several times as far as the tiles'
// maxima differ. By a warp; the same whoever asks.
__device__ __forceinline__ BinScale bin_scale(const RowGroup& group, int64_t row,
                                              const ScannedRow& scanned, float temperature) {
  constexpr float kLeast = 0x1p-100f, kMost = 0x1p100f;
  float lowest = scanned.max;
#pragma unroll 4
  for (int t = lane_of_thread(); t < group.tiles(); t += kWarp) {
    const float tile = scanned.row.resolve(group.tile_max[row * group.tiles() + t]);
    if (tile > -kInfinity) lowest = fminf(lowest, tile);
  }
  lowest = -warp_max(-lowest);
  const float spread = 4.0f * (scanned.max - lowest), reach = 30.0f * temperature;
  const float width = fminf(fmaxf(fminf(spread, reach), kLeast), kMost) * (1.0f / kBins);
  return {scanned.max, width, div(1.0f, width)};
}

// Quotients between which a bin's logits lie, with whole classes of equals at both ends.
struct BinEnds {
  float from, to;
};

__device__ __forceinline__ BinEnds bin_ends(const BinScale& scale, int bin, float temperature) {
  // Half a bin to its ends, and more than what is rounded.
  const float upper = scale.max - (float(bin) - 0.5625f) * scale.width;
  const float lower = scale.max - (float(bin) + 0.5625f) * scale.width;
  const float slack = (magnitude(upper) + magnitude(lower)) * 0x1p-20f;
  const float first = bin == 0 ? scale.max : fminf(upper + slack, scale.max);
  const float last = bin == kBins - 1 ? -kMaxFloat : fmaxf(lower - slack, -kMaxFloat);
  return {quotient(last, temperature), quotient(first, temperature)};
}

// The row's whole mass. By a warp.
__device__ __forceinline__ uint64_t mass_of_bins(const RowGroup& group, int64_t row) {
  uint64_t sum = 0;
  for (int b = lane_of_thread(); b < kBins; b += kWarp) sum += group.bin_mass[row * kBins + b];
  return warp_sum(sum);
}

}  // namespace cuda
}  // namespace spec_decode_ops
