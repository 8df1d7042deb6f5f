// SPDX-License-Identifier: Apache-2.0
// The first pass over every row: each logit is read once. It leaves the largest logit of each tile
// and strip, which of the tokens are penalised and, for rows that draw from all their tokens, each
// chunk's draw. What later passes add to, it clears.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

struct ScanParams {
  RowPair rows;
  Noise noise;  // of the draws: position i draws at offset + i
};

// Chunks draw where target.chunk_winner is there.
cudaError_t scan(const ScanParams& params, cudaStream_t stream);

// Whether top-p's share is of all the row's mass.
HOST_DEVICE bool shares_all(const Filter& filter, int64_t vocab) {
  return !greedy(filter) && has_top_p(filter) && !has_top_k(filter, vocab);
}

// Whether the row's token is looked for among all its tokens: it is unfiltered, or has top-p alone,
// which is asked about that token afterwards.
HOST_DEVICE bool draws_from_all(const Filter& filter, int64_t vocab) {
  return !greedy(filter) && !has_top_k(filter, vocab) && !has_min_p(filter);
}

}  // namespace cuda
}  // namespace spec_decode_ops
