// SPDX-License-Identifier: Apache-2.0
// sample over the rows of a group, by either of the two ways; verification by the coupled rule
// needs it too.
#pragma once

#include "cuda/segmented_sort.cuh"

namespace spec_decode_ops {
namespace cuda {

struct SamplePlan {
  RowGroup group;
  SortSpace sort;  // slice == 0: selects
};

SamplePlan plan_sample(const Logits& logits, int64_t sequences, int64_t positions,
                       const FilterSet& filter, const Tokens& drafted, Algorithm algorithm,
                       Arena& arena);

// token[row] drawn by `sample` at offset + position.
cudaError_t sample_rows(const SamplePlan& plan, const Noise& noise, int64_t* token,
                        cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
