// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuts.cuh"

#include "cuda/finish.cuh"
#include "cuda/plan.cuh"

namespace spec_decode_ops {
namespace cuda {

__global__ void __launch_bounds__(kRowThreads, 1) cut_kernel(const __grid_constant__ RowPair rows) {
  __shared__ SelectScratch scratch;
  const GroupPosition z = group_position(rows);
  const RowGroup& group = z.of_draft ? rows.draft : rows.target;
  if (!group.cut) return;
  const RowId id = row_id(group, blockIdx.x, z.position);
  const Cut cut = cut_row(group, id, filter_of(group, id.sequence), scratch);
  if (threadIdx.x == 0) group.cut[id.row] = cut;
}

CutPlan plan_cuts(const RowGroup& group, bool wanted, Algorithm algorithm, Arena& arena) {
  CutPlan plan{group, {}};
  if (!wanted) return plan;
  add_cuts(plan.group, arena);
  if (choose(algorithm) == Algorithm::kSort) {
    plan.sort = new_sort_space(plan.group, arena);
  } else if (may_share_all(group.filter, group.logits.vocab)) {
    add_bins(plan.group, arena);
  }
  return plan;
}

cudaError_t find_cuts(const CutPlan& target, const CutPlan& draft, cudaStream_t stream) {
  if (!target.group.cut && !draft.group.cut) return cudaSuccess;
  if (target.sort.slice || draft.sort.slice) {
    for (const CutPlan* each : {&target, &draft}) {
      if (each->sort.slice) RETURN_IF_FAILED(cut_sorted(each->group, each->sort, stream));
    }
    return cudaSuccess;
  }
  const RowPair rows{target.group, draft.group};
  RETURN_IF_FAILED(sum_bins(rows, stream));
  return launch(cut_kernel, rows_of(rows), kRowThreads, stream, rows);
}

}  // namespace cuda
}  // namespace spec_decode_ops
