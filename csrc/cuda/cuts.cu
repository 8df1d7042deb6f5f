// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuts.cuh"

#include "cuda/finish.cuh"
#include "cuda/plan.cuh"

namespace spec_decode_ops {
namespace cuda {

struct CutParams {
  RowGroup group;
};

__global__ void __launch_bounds__(kRowThreads, 1) cut_kernel(const __grid_constant__ CutParams p) {
  __shared__ SelectScratch scratch;
  const RowId id = row_id(p.group, blockIdx.x, blockIdx.z);
  const Cut cut = cut_row(p.group, id, filter_of(p.group, id.sequence), scratch);
  if (threadIdx.x == 0) p.group.cut[id.row] = cut;
}

CutPlan plan_cuts(const RowGroup& group, bool wanted, Algorithm algorithm, Arena& arena) {
  CutPlan plan{group, {}};
  if (!wanted) return plan;
  add_cuts(plan.group, arena);
  if (choose(algorithm) == Algorithm::kSort) plan.sort = new_sort_space(plan.group, arena);
  return plan;
}

cudaError_t find_cuts(const CutPlan& plan, cudaStream_t stream) {
  if (!plan.group.cut) return cudaSuccess;
  if (plan.sort.slice) return cut_sorted(plan.group, plan.sort, stream);
  return launch(cut_kernel, rows_of(plan.group), kRowThreads, stream, CutParams{plan.group});
}

}  // namespace cuda
}  // namespace spec_decode_ops
