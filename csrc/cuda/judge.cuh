// SPDX-License-Identifier: Apache-2.0
// Speculative sampling (common/accept.h) over rows whose masses are known: where a sequence's round
// ends and why, the residual's weights there, and the token drawn from them.
//
// Whoever needs to know where the round ends works it out again from the rows' masses: it costs a
// few loads a position, and no block waits for another.
#pragma once

#include "cuda/finish.cuh"
#include "cuda/law.cuh"

namespace spec_decode_ops {
namespace cuda {

struct JudgeParams {
  RowGroup target, draft;
  bool has_draft;  // false: the draft's law is its one token
  Tokens drafted;
  Noise noise;
  const int64_t* words;    // [sequences, drafts + 1] in place of Philox, or nullptr
  const double* uniforms;  // the same for probabilities, which have no Philox
  bool greedy;             // probabilities: accept what is the first maximum
  bool normalized;         // probabilities: rows sum to 1 and were not scanned

  Wide* tile_weight;       // [sequences, target tiles]
  int64_t* accept_length;  // [sequences]
  int64_t* out;            // [sequences, drafts + 1], or nullptr
  int64_t* next_token;     // [sequences], or nullptr
};

// How a position ends the round.
enum class End : int32_t {
  kFirstMaximum,  // a greedy row, whose draft token is another or has ended
  kOwnLaw,        // all accepted, or the draft ended here
  kResidual,      // rejected
};

struct JudgeScratch {
  int position;
  End end;
};

// The round's weights, and the tokens drawn.
cudaError_t judge(const JudgeParams& params, cudaStream_t stream);

// The rows' buffers of a judgement by ratio; what `judge` needs besides them.
inline Wide* new_tile_weights(const RowGroup& target, Arena& arena) {
  return arena.take<Wide>(target.sequences * target.tiles());
}

}  // namespace cuda
}  // namespace spec_decode_ops
