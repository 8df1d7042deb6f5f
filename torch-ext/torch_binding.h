// SPDX-License-Identifier: Apache-2.0
// The ops by their schemas' arguments, in their order; one function for each device.
#pragma once

#include <tuple>

#include "tensor_args.h"

#define FILTER_ARGUMENTS                                                                    \
  double temperature, int64_t top_k, double top_p, double min_p, double repetition_penalty, \
      MaybeTensor prev_tokens, MaybeTensor temperature_tensor, MaybeTensor top_k_tensor,    \
      MaybeTensor top_p_tensor, MaybeTensor min_p_tensor, MaybeTensor repetition_penalty_tensor
#define NOISE_ARGUMENTS \
  int64_t seed, int64_t offset, MaybeTensor seed_tensor, MaybeTensor offset_tensor

namespace spec_decode_ops {

Tensor sample_cpu(Tensor logits, FILTER_ARGUMENTS, NOISE_ARGUMENTS);

Tensor filter_logits_cpu(Tensor logits, FILTER_ARGUMENTS);

std::tuple<Tensor, Tensor> verify_cpu(Tensor target_logits, MaybeTensor draft_logits,
                                      Tensor draft_tokens, FILTER_ARGUMENTS, NOISE_ARGUMENTS,
                                      bool coupled, MaybeTensor words);

std::tuple<int64_t, int64_t> verify_greedy_cpu(Tensor target_probs, Tensor draft_tokens);

std::tuple<int64_t, int64_t> accept_cpu(Tensor target_probs, MaybeTensor draft_probs,
                                        Tensor draft_tokens, Tensor uniforms, bool normalized);

}  // namespace spec_decode_ops
