// SPDX-License-Identifier: Apache-2.0
// filter_logits: the quotients x/T of the tokens that `sample` may draw, -inf elsewhere. A scan, a
// block that finds each row's cut where a filter may be on, and a pass that writes.
#include "cuda/cuts.cuh"
#include "cuda/finish.cuh"
#include "cuda/plan.cuh"

namespace spec_decode_ops {
namespace cuda {

struct WriteParams {
  RowGroup group;
  float* out;  // [rows, vocab]
};

namespace {

// x[j] / T. Those few that are not of ordinary size share one copy of that division.
__device__ __forceinline__ void divide_all(const Divisor& by, float (&x)[kTokensPerThread]) {
  uint32_t others = 0;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    if (by.ordinary && of_ordinary_size(x[j])) {
      x[j] = quotient_of_ordinary(x[j], by.value, by.reciprocal);
    } else {
      others |= 1u << j;
    }
  }
  for_those(others, x, [&](float value) { return quotient(value, by); });
}

struct WriteScratch {
  Row row;
  Cut cut;
  bool divides;
  Divisor by;
};

// What all of the row's blocks need to know of it. By the first warp, while the logits are on their
// way.
__device__ __forceinline__ void find_cut(const RowGroup& group, const RowId& id,
                                         WriteScratch& scratch) {
  const Filter filter = filter_of(group, id.sequence);
  const Row row = scanned_row(group, id, filter).row;
  const bool divides = !greedy(filter);
  const Divisor by = divisor(divides ? filter.temperature : 1.0f);
  if (lane_of_thread() != 0) return;
  scratch.row = row;
  scratch.cut = group.cut ? group.cut[id.row] : keep_all();
  scratch.divides = divides;
  scratch.by = by;
}

}  // namespace

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    write_kernel(const __grid_constant__ WriteParams p) {
  __shared__ WriteScratch scratch;
  const ChunkPlace at = chunk_place(p.group, 0);
  float x[kTokensPerThread];
  load_chunk(plain_row(p.group, at.id), at.chunk, at.first, x);
  if (uniform_warp() == 0) find_cut(p.group, at.id, scratch);
  __syncthreads();
  settle(scratch.row, at.first, x);
  const bool divides = uniform(scratch.divides);
  if (divides) divide_all(scratch.by, x);
  const Cut cut = scratch.cut;
  const int vocab = int(p.group.logits.vocab);
  float* out = p.out + at.id.row * p.group.logits.vocab;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    const int token = at.first + kWarp * j;
    const bool keeps = divides ? kept(x[j], token, cut) : token == cut.id;
    if (token < vocab) out[token] = keeps ? x[j] : -kInfinity;
  }
}

namespace {

struct Plan {
  CutPlan cuts;
  size_t bytes;
};

Plan plan(const FilterParams& p, int64_t rows, Algorithm algorithm, void* workspace) {
  Arena arena(workspace);
  const RowGroup group = new_group(p.logits, rows, 1, p.filter, {}, arena);
  const bool cut = may_be_greedy(p.filter) || may_cut(p.filter, p.logits.vocab);
  const CutPlan cuts = plan_cuts(group, cut, algorithm, arena);
  return {cuts, arena.bytes()};
}

}  // namespace

size_t filter_workspace(const FilterParams& params, int64_t rows, Algorithm algorithm) {
  return plan(params, rows, algorithm, nullptr).bytes;
}

cudaError_t filter_logits(const FilterParams& params, int64_t rows, Algorithm algorithm,
                          void* workspace, cudaStream_t stream) {
  const Plan made = plan(params, rows, algorithm, workspace);
  const RowGroup& group = made.cuts.group;
  const RowPair scanned{group, {}};
  RETURN_IF_FAILED(scan({scanned, {}}, stream));
  RETURN_IF_FAILED(find_cuts(made.cuts, {}, stream));
  return launch(write_kernel, chunks_of(scanned), kThreads, stream, WriteParams{group, params.out});
}

}  // namespace cuda
}  // namespace spec_decode_ops
