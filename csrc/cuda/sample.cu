// SPDX-License-Identifier: Apache-2.0
// sample: penalty -> temperature -> top-k -> top-p -> min-p -> Gumbel-argmax draw. Two launches:
// the scan of all rows, split over blocks, and a block that finishes each row. Where top-p may
// share all of a row's mass, a third between them sums it by bins.
#include "cuda/sample.cuh"

#include "cuda/finish.cuh"
#include "cuda/plan.cuh"

namespace spec_decode_ops {
namespace cuda {

struct SampleRowsParams {
  RowGroup group;
  Noise noise;
  int64_t* token;
};

__global__ void __launch_bounds__(kRowThreads, 1)
    sample_kernel(const __grid_constant__ SampleRowsParams p) {
  __shared__ SelectScratch scratch;
  const RowId id = row_id(p.group, blockIdx.x, blockIdx.z);
  const Filter filter = filter_of(p.group, id.sequence);
  sample_row(p.group, id, filter, place_of(p.noise, id), scratch, p.token + id.row);
}

SamplePlan plan_sample(const Logits& logits, int64_t sequences, int64_t positions,
                       const FilterSet& filter, const Tokens& drafted, Algorithm algorithm,
                       Arena& arena) {
  SamplePlan plan{new_group(logits, sequences, positions, filter, drafted, arena), {}};
  if (choose(algorithm) == Algorithm::kSort) {
    plan.sort = new_sort_space(plan.group, arena);
    return plan;
  }
  if (may_draw_from_all(filter, logits.vocab)) add_chunk_winners(plan.group, arena);
  if (may_share_all(filter, logits.vocab)) add_bins(plan.group, arena);
  return plan;
}

cudaError_t sample_rows(const SamplePlan& plan, const Noise& noise, int64_t* token,
                        cudaStream_t stream) {
  const RowGroup& group = plan.group;
  if (plan.sort.slice) return sample_sorted(group, plan.sort, noise, token, stream);
  const RowPair rows{group, {}};
  RETURN_IF_FAILED(scan({rows, noise}, stream));
  RETURN_IF_FAILED(sum_bins(rows, stream));
  return launch(sample_kernel, rows_of(rows), kRowThreads, stream,
                SampleRowsParams{group, noise, token});
}

namespace {

SamplePlan plan(const SampleParams& p, int64_t rows, Algorithm algorithm, Arena& arena) {
  return plan_sample(p.logits, rows, 1, p.filter, {}, algorithm, arena);
}

}  // namespace

size_t sample_workspace(const SampleParams& params, int64_t rows, Algorithm algorithm) {
  Arena arena(nullptr);
  plan(params, rows, algorithm, arena);
  return arena.bytes();
}

cudaError_t sample(const SampleParams& params, int64_t rows, Algorithm algorithm, void* workspace,
                   cudaStream_t stream) {
  Arena arena(workspace);
  return sample_rows(plan(params, rows, algorithm, arena), params.noise, params.token, stream);
}

}  // namespace cuda
}  // namespace spec_decode_ops
