// SPDX-License-Identifier: Apache-2.0
// Each row's cut (common/prefix_filter.h), by either of the two ways.
#pragma once

#include "cuda/segmented_sort.cuh"

namespace spec_decode_ops {
namespace cuda {

struct CutPlan {
  RowGroup group;
  SortSpace sort;  // slice == 0: selects
};

// Without a cut for the rows unless it is `wanted`.
CutPlan plan_cuts(const RowGroup& group, bool wanted, Algorithm algorithm, Arena& arena);

// Of the target's rows and the draft's, whose plan may be empty. After the scan.
cudaError_t find_cuts(const CutPlan& target, const CutPlan& draft, cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
