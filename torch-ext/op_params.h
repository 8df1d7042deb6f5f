// SPDX-License-Identifier: Apache-2.0
// From an op's arguments to the kernels' params and its outputs, the same for every device.
#pragma once

#include <tuple>

#include "tensor_args.h"

namespace spec_decode_ops {

// What a kernel is to be run with, and the tensors it fills.
struct SampleCall {
  SampleParams params;
  int64_t rows;
  Tensor token;
};
SampleCall prepare_sample(const Tensor& logits, const FilterArgs& filter, const NoiseArgs& noise);

struct FilterCall {
  FilterParams params;
  int64_t rows;
  Tensor out;
};
FilterCall prepare_filter(const Tensor& logits, const FilterArgs& filter);

struct VerifyCall {
  VerifyParams params;
  int64_t rows;
  Tensor accept_length, out;
};
VerifyCall prepare_verify(const Tensor& target_logits, const MaybeTensor& draft_logits,
                          const Tensor& draft_tokens, const FilterArgs& filter,
                          const NoiseArgs& noise, bool coupled, const MaybeTensor& words);

// One sequence; the caller provides the results' places and, unless greedy, the uniforms.
AcceptParams prepare_accept(const char* op, const Tensor& target_probs,
                            const MaybeTensor& draft_probs, const Tensor& draft_tokens,
                            const Tensor* uniforms, bool normalized);

}  // namespace spec_decode_ops
