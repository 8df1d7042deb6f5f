// SPDX-License-Identifier: Apache-2.0
// The end of each round of speculative sampling, by the token rule or the block rule, from rows
// whose masses are known or that are normalised: how many draft tokens stand, and the token that
// follows them.
#pragma once

#include "cuda/pairs.cuh"

namespace spec_decode_ops {
namespace cuda {

struct JudgeParams {
  Round round;
  BlockSpace block;  // of the block rule
  PairSpace pairs;
  Verdicts verdicts;
};

// Up to three launches: the reach of each sequence under the block rule, the sums of row pairs, and
// the tokens drawn.
cudaError_t judge(const JudgeParams& params, cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
