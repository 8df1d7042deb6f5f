// SPDX-License-Identifier: Apache-2.0
// The first pass over every row: each logit is read once. It leaves each tile's largest logit,
// which of the tokens are penalised and, for rows that draw from all their tokens, each chunk's
// draw.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

struct ScanParams {
  RowGroup target, draft;  // draft.positions may be 0
  Noise noise;             // of the draws: position i draws at offset + i
};

// Chunks draw where target.chunk_winner is there.
cudaError_t scan(const ScanParams& params, cudaStream_t stream);

// Whether the row's token is looked for among all its tokens: it is unfiltered, or has top-p alone,
// which is asked about that token afterwards.
HOST_DEVICE bool asks_afterwards(const Filter& filter, int64_t vocab) {
  return !greedy(filter) && has_top_p(filter) && !has_top_k(filter, vocab) && !has_min_p(filter);
}
HOST_DEVICE bool draws_from_all(const Filter& filter, int64_t vocab) {
  return !greedy(filter) && (keeps_everything(filter, vocab) || asks_afterwards(filter, vocab));
}

}  // namespace cuda
}  // namespace spec_decode_ops
