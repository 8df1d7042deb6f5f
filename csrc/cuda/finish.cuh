// SPDX-License-Identifier: Apache-2.0
// What one block does with one row once the passes over it are done: the first maximum, the draw
// over what the filters keep, or the cut itself.
#pragma once

#include "cuda/scan.cuh"
#include "cuda/select.cuh"

namespace spec_decode_ops {
namespace cuda {

// The first token equal to the row's largest logit, in every lane; -1 in an empty row. By a warp.
__device__ __forceinline__ int first_maximum(const RowGroup& group, int64_t index,
                                             const ScannedRow& scanned) {
  if (uniform(scanned.max == -kInfinity)) return -1;
  int chunk = INT32_MAX;
  for (int c = lane_of_thread(); c < group.chunks(); c += kWarp) {
    const bool holds = group.chunk_max[index * group.chunks() + c] == scanned.raw_max;
    chunk = holds && c < chunk ? c : chunk;
  }
  chunk = int(__reduce_min_sync(kAllLanes, uint32_t(chunk)));
  const int lane_tile = chunk * kTilesPerChunk + lane_of_thread();
  const bool holds = lane_tile < group.tiles() &&
                     group.tile_max[index * group.tiles() + lane_tile] == scanned.raw_max;
  const int tile = chunk * kTilesPerChunk + __ffs(int(__ballot_sync(kAllLanes, holds))) - 1;
  int token = INT32_MAX;
#pragma unroll 1
  for (int j = kLoadsPerTile - 1; j >= 0; --j) {
    const int t = tile * kTile + kWarp * j + lane_of_thread();
    if (t < scanned.row.vocab && scanned.row.at(t) == scanned.max) token = t;
  }
  return int(__reduce_min_sync(kAllLanes, uint32_t(token)));
}

// The draw over the candidates that a cut keeps, in the first warp; -1 if there are none.
__device__ __forceinline__ int draw_candidates(const Candidates& candidates, const Cut& cut,
                                               const Place& place, SelectScratch& scratch) {
  Winner best = no_winner();
  candidates.for_each([&](const Candidate& c) {
    if (kept(c.y, c.id, cut) && best.open(c.y, kGumbelMax)) best.show(place, c.id, c.y);
  });
  return block_best(best, scratch.winners).token;
}

// Whether top-p keeps the row's winner: the mass before it is under the quota. By a warp.
__device__ __forceinline__ bool in_nucleus(const RowGroup& group, int64_t index, double top_p) {
  uint64_t total = 0, before = 0;
  for (int c = lane_of_thread(); c < group.chunks(); c += kWarp) {
    total += group.chunk_mass[index * group.chunks() + c];
    before += group.chunk_before[index * group.chunks() + c];
  }
  return warp_sum(before) < top_p_quota(top_p, warp_sum(total));
}

// Leaves the row's token.
__device__ __forceinline__ void sample_row(const RowGroup& group, const RowId& id,
                                           const Filter& filter, const Place& place,
                                           SelectScratch& scratch, int64_t* out) {
  const int64_t index = id.row;
  const ScannedRow scanned = scanned_row(group, id, filter);
  if (uniform(greedy(filter) || scanned.max == -kInfinity)) {
    const int token = first_maximum(group, index, scanned);
    if (threadIdx.x == 0) *out = token;
    return;
  }
  if (uniform(draws_from_all(filter, group.logits.vocab))) {
    const int token = row_winner(group, index, scanned.raw_max).token;
    if (uniform(!has_top_p(filter) || in_nucleus(group, index, filter.top_p))) {
      if (threadIdx.x == 0) *out = token;
      return;
    }
  }
  Candidates candidates(group, index, scanned, filter.temperature, scratch);
  const Cut cut = select(candidates, scanned.row.vocab, filter, scratch);
  const int token = draw_candidates(candidates, cut, place, scratch);
  if (threadIdx.x == 0) *out = token;
}

// The row's cut, in every thread. Of a greedy row its `id` is the token, -1 in an empty row.
__device__ __forceinline__ Cut cut_row(const RowGroup& group, const RowId& id, const Filter& filter,
                                       SelectScratch& scratch) {
  const int64_t index = id.row;
  const ScannedRow scanned = scanned_row(group, id, filter);
  if (uniform(greedy(filter))) return {kInfinity, first_maximum(group, index, scanned)};
  const bool keeps_all = scanned.max == -kInfinity || keeps_everything(filter, group.logits.vocab);
  if (uniform(keeps_all)) return keep_all();
  Candidates candidates(group, index, scanned, filter.temperature, scratch);
  return select(candidates, scanned.row.vocab, filter, scratch);
}

}  // namespace cuda
}  // namespace spec_decode_ops
