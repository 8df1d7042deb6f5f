// SPDX-License-Identifier: Apache-2.0
// sample over the rows of a group, as verification by the coupled rule needs it too.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

// The rows' buffers for `sample_rows`, but for the sort's own.
RowGroup new_sample_group(const Logits& logits, int64_t sequences, int64_t positions,
                          const FilterSet& filter, const Tokens& drafted, Arena& arena);

// token[row] drawn by `sample` at offset + position.
cudaError_t sample_rows(const RowGroup& group, const Noise& noise, int64_t* token,
                        cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
