// SPDX-License-Identifier: Apache-2.0
// A row as the scan left it: its largest logit, and the first token that has it.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

// The row's largest logit, in every lane; NaN is passed over, +inf is itself. By a warp, after the
// scan.
__device__ __forceinline__ float row_maximum(const RowGroup& group, int64_t row) {
  float largest = -kInfinity;
  const float* tile = group.tile_max + row * group.tiles();
#pragma unroll 4
  for (int t = lane_of_thread(); t < group.tiles(); t += kWarp) largest = fmaxf(largest, tile[t]);
  return warp_max(largest);
}

// Makes `at` penalise what the row has seen.
__device__ __forceinline__ void look_through_penalty(const RowGroup& group, const RowId& id,
                                                     float penalty, Row& row) {
  if (!group.penalised || penalty == 1.0f) return;
  row.penalised = penalised_bits(group, id.row);
  row.penalty = penalty;
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
  look_through_penalty(group, id, filter.penalty, view);
  view.infinite = raw_max == kInfinity && !group.probabilities;
  return {view, view.infinite ? 0.0f : raw_max, raw_max};
}

// The first token equal to the row's largest logit, in every lane; -1 in an empty row. By a warp.
__device__ __forceinline__ int first_maximum(const RowGroup& group, int64_t index,
                                             const ScannedRow& scanned) {
  if (uniform(scanned.max == -kInfinity)) return -1;
  int tile = INT32_MAX;
  for (int t = lane_of_thread(); t < group.tiles(); t += kWarp) {
    const bool holds = group.tile_max[index * group.tiles() + t] == scanned.raw_max;
    tile = holds && t < tile ? t : tile;
  }
  tile = int(__reduce_min_sync(kAllLanes, uint32_t(tile)));
  int token = INT32_MAX;
#pragma unroll 1
  for (int j = kLoadsPerTile - 1; j >= 0; --j) {
    const int t = tile * kTile + kWarp * j + lane_of_thread();
    if (t < scanned.row.vocab && scanned.row.at(t) == scanned.max) token = t;
  }
  return int(__reduce_min_sync(kAllLanes, uint32_t(token)));
}

}  // namespace cuda
}  // namespace spec_decode_ops
