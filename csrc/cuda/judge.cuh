// SPDX-License-Identifier: Apache-2.0
// The end of each round of speculative sampling, from rows whose masses are known: where it is and
// why, the residual's weights there, and the token drawn from them.
#pragma once

#include "cuda/round.cuh"

namespace spec_decode_ops {
namespace cuda {

struct JudgeParams {
  Round round;
  Wide* tile_weight;       // [sequences, target tiles]
  int64_t* accept_length;  // [sequences]
  int64_t* out;            // [sequences, drafts + 1], or nullptr
  int64_t* next_token;     // [sequences], or nullptr
};

// The round's weights, and the tokens drawn.
cudaError_t judge(const JudgeParams& params, cudaStream_t stream);

// The rows' buffers of a judgement by ratio; what `judge` needs besides them.
inline Wide* new_tile_weights(const RowGroup& target, Arena& arena) {
  return arena.take<Wide>(target.sequences * target.tiles());
}

}  // namespace cuda
}  // namespace spec_decode_ops
