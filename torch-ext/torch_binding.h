// SPDX-License-Identifier: Apache-2.0
// The ops by their schemas' arguments, in their order; one function for each device.
#pragma once

#include <string>
#include <tuple>

#include "tensor_args.h"

#define FILTER_NUMBERS_ARGUMENTS \
  int64_t top_k, double top_p, double min_p, double repetition_penalty, MaybeTensor prev_tokens
#define FILTER_ARGUMENTS                                                            \
  FILTER_NUMBERS_ARGUMENTS, int64_t algorithm, MaybeTensor temperature_tensor,      \
      MaybeTensor top_k_tensor, MaybeTensor top_p_tensor, MaybeTensor min_p_tensor, \
      MaybeTensor repetition_penalty_tensor
#define FILTER                                                                              \
  FilterArgs {                                                                              \
    temperature, top_k, top_p, min_p, repetition_penalty, temperature_tensor, top_k_tensor, \
        top_p_tensor, min_p_tensor, repetition_penalty_tensor, prev_tokens                  \
  }
#define FILTER_OF_NUMBERS \
  top_k, top_p, min_p, repetition_penalty, prev_tokens, 0, {}, {}, {}, {}, {}
#define NOISE \
  NoiseArgs { seed, offset, seed_tensor, offset_tensor }

#define SAMPLE_START Tensor logits, double temperature, MaybeSeed seed, int64_t offset
#define SAMPLE_NUMBERS SAMPLE_START, FILTER_NUMBERS_ARGUMENTS
#define SAMPLE_ARGUMENTS \
  SAMPLE_START, FILTER_ARGUMENTS, MaybeTensor seed_tensor, MaybeTensor offset_tensor
#define FILTER_LOGITS_NUMBERS Tensor logits, double temperature, FILTER_NUMBERS_ARGUMENTS
#define FILTER_LOGITS_ARGUMENTS Tensor logits, double temperature, FILTER_ARGUMENTS
#define VERIFY_START                                                                       \
  Tensor target_logits, MaybeTensor draft_logits, Tensor draft_tokens, double temperature, \
      MaybeSeed seed, int64_t offset, int64_t rule
#define VERIFY_NUMBERS VERIFY_START, FILTER_NUMBERS_ARGUMENTS
#define VERIFY_ARGUMENTS                                                              \
  VERIFY_START, FILTER_ARGUMENTS, MaybeTensor seed_tensor, MaybeTensor offset_tensor, \
      MaybeTensor words
#define LOGPROBS_ARGUMENTS Tensor logits, Tensor tokens, double temperature, FILTER_ARGUMENTS
#define VERIFY_GREEDY_ARGUMENTS Tensor target_probs, Tensor draft_tokens
#define ACCEPT_ARGUMENTS                                                                   \
  Tensor target_probs, MaybeTensor draft_probs, Tensor draft_tokens, MaybeTensor uniforms, \
      bool normalized, int64_t rule

namespace spec_decode_ops {

// A str argument of a schema. Whoever reads it, once, has deleted it: torch's own conversion to
// std::string leaks one at each call.
struct Text {
  StringHandle handle;
  operator std::string() const {
    size_t length = 0;
    const char* data = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_string_length(handle, &length));
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(handle, &data));
    std::string text(data, length);
    TORCH_ERROR_CODE_CHECK(torch_delete_string(handle));
    return text;
  }
};

using TwoTensors = std::tuple<Tensor, Tensor>;
using TwoNumbers = std::tuple<int64_t, int64_t>;

Tensor sample_cpu(SAMPLE_ARGUMENTS);
Tensor filter_logits_cpu(FILTER_LOGITS_ARGUMENTS);
TwoTensors verify_cpu(VERIFY_ARGUMENTS);
TwoTensors logprobs_cpu(LOGPROBS_ARGUMENTS);
TwoNumbers verify_greedy_cpu(VERIFY_GREEDY_ARGUMENTS);
TwoTensors verify_greedy_tensors_cpu(VERIFY_GREEDY_ARGUMENTS);
TwoNumbers accept_cpu(ACCEPT_ARGUMENTS);
TwoTensors accept_tensors_cpu(ACCEPT_ARGUMENTS);

Tensor sample_cuda(SAMPLE_ARGUMENTS);
Tensor filter_logits_cuda(FILTER_LOGITS_ARGUMENTS);
TwoTensors verify_cuda(VERIFY_ARGUMENTS);
TwoTensors logprobs_cuda(LOGPROBS_ARGUMENTS);
TwoTensors verify_greedy_tensors_cuda(VERIFY_GREEDY_ARGUMENTS);
TwoTensors accept_tensors_cuda(ACCEPT_ARGUMENTS);

// The name of the CPU target that runs; another one from here on, if `name` is not empty.
std::string cpu_target(Text name);

// The checks of an op's arguments alone, of which nothing depends on the device.
void check_sample(SAMPLE_ARGUMENTS);
void check_filter_logits(FILTER_LOGITS_ARGUMENTS);
void check_verify(VERIFY_ARGUMENTS);
void check_verify_greedy(VERIFY_GREEDY_ARGUMENTS);
void check_accept(Tensor target_probs, MaybeTensor draft_probs, Tensor draft_tokens,
                  MaybeTensor uniforms);

}  // namespace spec_decode_ops
