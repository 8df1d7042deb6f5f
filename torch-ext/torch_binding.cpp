// SPDX-License-Identifier: Apache-2.0
// The schemas. Integers are SymInt, so that one compiled graph serves every seed and offset, and
// each scalar parameter has a tensor twin that is read on the device.
#include "torch_binding.h"

#include <torch/csrc/stable/library.h>

#include "registration.h"

#define FILTER_SCHEMA                                                                     \
  "float temperature, SymInt top_k, float top_p, float min_p, float repetition_penalty, " \
  "Tensor? prev_tokens, Tensor? temperature_tensor, Tensor? top_k_tensor, "               \
  "Tensor? top_p_tensor, Tensor? min_p_tensor, Tensor? repetition_penalty_tensor"
#define NOISE_SCHEMA "SymInt seed, SymInt offset, Tensor? seed_tensor, Tensor? offset_tensor"

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("sample(Tensor logits, " FILTER_SCHEMA ", " NOISE_SCHEMA ") -> Tensor");
  ops.def("filter_logits(Tensor logits, " FILTER_SCHEMA ") -> Tensor");
  ops.def("verify(Tensor target_logits, Tensor? draft_logits, Tensor draft_tokens, " FILTER_SCHEMA
          ", " NOISE_SCHEMA ", bool coupled, Tensor? words) -> (Tensor, Tensor)");
  ops.def("verify_greedy(Tensor target_probs, Tensor draft_tokens) -> (SymInt, SymInt)");
  ops.def(
      "accept(Tensor target_probs, Tensor? draft_probs, Tensor draft_tokens, Tensor uniforms, "
      "bool normalized) -> (SymInt, SymInt)");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("sample", TORCH_BOX(&spec_decode_ops::sample_cpu));
  ops.impl("filter_logits", TORCH_BOX(&spec_decode_ops::filter_logits_cpu));
  ops.impl("verify", TORCH_BOX(&spec_decode_ops::verify_cpu));
  ops.impl("verify_greedy", TORCH_BOX(&spec_decode_ops::verify_greedy_cpu));
  ops.impl("accept", TORCH_BOX(&spec_decode_ops::accept_cpu));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
