// SPDX-License-Identifier: Apache-2.0
// sample: penalty -> temperature -> top-k -> top-p -> min-p -> Gumbel-argmax draw. Two launches:
// the scan of all rows, split over blocks, and a block that finishes each row. Where top-p may
// stand alone, a third between them sums the masses by which the draw over the whole row is then
// judged.
#include "cuda/sample.cuh"

#include "cuda/finish.cuh"
#include "cuda/plan.cuh"
#include "cuda/segmented_sort.cuh"

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

RowGroup new_sample_group(const Logits& logits, int64_t sequences, int64_t positions,
                          const FilterSet& filter, const Tokens& drafted, Arena& arena) {
  RowGroup group = new_group(logits, sequences, positions, filter, drafted, arena);
  if (may_draw_from_all(filter, logits.vocab)) add_chunk_winners(group, arena);
  if (may_ask_afterwards(filter, logits.vocab)) add_winner_masses(group, arena);
  return group;
}

cudaError_t sample_rows(const RowGroup& group, const Noise& noise, int64_t* token,
                        cudaStream_t stream) {
  RETURN_IF_FAILED(scan({group, {}, noise}, stream));
  if (group.chunk_before) RETURN_IF_FAILED(sum_masses({group, {}, MassOf::kWinner}, stream));
  return launch(sample_kernel, rows_of(group), kRowThreads, stream,
                SampleRowsParams{group, noise, token});
}

namespace {

struct Plan {
  RowGroup group;
  SortSpace sort;
  size_t bytes;
};

Plan plan(const SampleParams& p, int64_t rows, Algorithm algorithm, void* workspace) {
  Arena arena(workspace);
  Plan plan{};
  if (choose(algorithm) == Algorithm::kSort) {
    plan.group = new_group(p.logits, rows, 1, p.filter, {}, arena);
    plan.sort = new_sort_space(plan.group, arena);
  } else {
    plan.group = new_sample_group(p.logits, rows, 1, p.filter, {}, arena);
  }
  plan.bytes = arena.bytes();
  return plan;
}

}  // namespace

size_t sample_workspace(const SampleParams& params, int64_t rows, Algorithm algorithm) {
  return plan(params, rows, algorithm, nullptr).bytes;
}

cudaError_t sample(const SampleParams& params, int64_t rows, Algorithm algorithm, void* workspace,
                   cudaStream_t stream) {
  const Plan made = plan(params, rows, algorithm, workspace);
  if (choose(algorithm) == Algorithm::kSort) {
    return sample_sorted(made.group, made.sort, params.noise, params.token, stream);
  }
  return sample_rows(made.group, params.noise, params.token, stream);
}

}  // namespace cuda
}  // namespace spec_decode_ops
