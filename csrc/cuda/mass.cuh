// SPDX-License-Identifier: Apache-2.0
// The second pass over a row, where its law is needed: the masses (common/mass.h) of its tiles, of
// what its cut keeps, as integers whose sum does not depend on how the row is split. Of a row that
// is cut only the tiles that hold kept tokens are read.
//
// Rows come position-major. The last block to sum a position, of the target's row and the draft's,
// judges the draft token there; blocks of later positions of a sequence that is known to end
// earlier do nothing.
#pragma once

#include "cuda/round.cuh"

namespace spec_decode_ops {
namespace cuda {

// After the scan, and after the cuts if there are any.
cudaError_t sum_masses(const Round& round, cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
