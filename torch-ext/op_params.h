// SPDX-License-Identifier: Apache-2.0
// From an op's arguments to the kernels' params and its outputs, the same for every device.
#pragma once

#include <tuple>

#include "tensor_args.h"

namespace spec_decode_ops {

// What a kernel is to be run with, once it has places for its results. `leading` is the shape of
// one result a row: [rows], or [] for one row that came without that dimension. `algorithm` counts
// as TensorArgs::algorithm does; the CPU has only one. `wants_draw`: there is noise in this call,
// and it brought none.
template <class Params>
struct Call {
  Params params;
  int64_t rows;
  Shape leading;
  int algorithm;
  bool wants_draw;
  MaybeTensor drawn;
};
using SampleCall = Call<SampleParams>;
using FilterCall = Call<FilterParams>;
using VerifyCall = Call<VerifyParams>;
using AcceptCall = Call<AcceptParams>;
using LogprobCall = Call<LogprobParams>;

SampleCall prepare_sample(const Tensor& logits, const FilterArgs& filter, const NoiseArgs& noise,
                          int64_t algorithm);
FilterCall prepare_filter(const Tensor& logits, const FilterArgs& filter, int64_t algorithm);
// How schemas count rules.
constexpr int64_t kTokenRule = int64_t(Rule::kToken);

VerifyCall prepare_verify(const Tensor& target_logits, const MaybeTensor& draft_logits,
                          const Tensor& draft_tokens, const FilterArgs& filter,
                          const NoiseArgs& noise, int64_t rule, const MaybeTensor& words,
                          int64_t algorithm);

// Of tokens [rows, positions] under logits [rows, positions, V], or both without the positions, or
// without the rows too.
LogprobCall prepare_logprobs(const Tensor& logits, const Tensor& tokens, const FilterArgs& filter,
                             int64_t algorithm);

// target_probs [positions, V] are one sequence, [rows, positions, V] a batch. To a kernel a call
// without uniforms is greedy.
AcceptCall prepare_accept(const char* op, const Tensor& target_probs,
                          const MaybeTensor& draft_probs, const Tensor& draft_tokens,
                          const MaybeTensor& uniforms, bool normalized, int64_t rule,
                          bool may_be_batch);

// What a call wants that brought no noise, from torch's default generator on the device of its
// first tensor: a seed, or float64 uniforms. A call that is refused never comes here, so that it
// takes nothing.
void draw_seed(SampleCall& call, const Tensor& logits);
void draw_seed(VerifyCall& call, const Tensor& target_logits);
void draw_uniforms(AcceptCall& call, const Tensor& target_probs);

// The results of a call, on the device of its first tensor.
Tensor token_output(SampleCall& call, const Tensor& logits);
Tensor logits_output(FilterCall& call, const Tensor& logits);
std::tuple<Tensor, Tensor> logprob_outputs(LogprobCall& call, const Tensor& logits);
std::tuple<Tensor, Tensor> verdict_outputs(VerifyCall& call, const Tensor& target_logits);
std::tuple<Tensor, Tensor> verdict_outputs(AcceptCall& call, const Tensor& target_probs);

}  // namespace spec_decode_ops
