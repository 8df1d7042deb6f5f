// SPDX-License-Identifier: Apache-2.0
// The schemas. Integers are SymInt, so that one compiled graph serves every seed and offset, and
// each scalar parameter has a tensor twin that is read on the device. An op's overload `check`
// only checks its arguments; `tensors` returns tensors where the op itself returns numbers;
// `numbers` takes parameters without tensor twins, the CPU's way to a short call: what an argument
// costs there is more than a small row does, unless it comes last and is left out. `rule` is the
// place of the method's name among "token", "block" and "coupled".
#include "torch_binding.h"

#include <torch/csrc/stable/library.h>

#include "registration.h"

#define FILTER_SCHEMA                                                                     \
  "float temperature, SymInt top_k, float top_p, float min_p, float repetition_penalty, " \
  "Tensor? prev_tokens, Tensor? temperature_tensor, Tensor? top_k_tensor, "               \
  "Tensor? top_p_tensor, Tensor? min_p_tensor, Tensor? repetition_penalty_tensor"
#define NOISE_SCHEMA "SymInt seed, SymInt offset, Tensor? seed_tensor, Tensor? offset_tensor"

#define SAMPLE_SCHEMA "(Tensor logits, " FILTER_SCHEMA ", " NOISE_SCHEMA ", str algorithm)"
#define SAMPLE_NUMBERS_SCHEMA                                                             \
  "(Tensor logits, float temperature, SymInt seed, SymInt offset, SymInt top_k=0, float " \
  "top_p=1.0, float min_p=0.0, float repetition_penalty=1.0, Tensor? prev_tokens=None, "  \
  "Tensor? seed_tensor=None)"
#define FILTER_LOGITS_SCHEMA "(Tensor logits, " FILTER_SCHEMA ", str algorithm)"
#define VERIFY_SCHEMA                                                                \
  "(Tensor target_logits, Tensor? draft_logits, Tensor draft_tokens, " FILTER_SCHEMA \
  ", " NOISE_SCHEMA ", int rule, Tensor? words, str algorithm)"
#define LOGPROBS_SCHEMA "(Tensor logits, Tensor tokens, " FILTER_SCHEMA ", str algorithm)"
#define VERIFY_GREEDY_SCHEMA "(Tensor target_probs, Tensor draft_tokens)"
#define ACCEPT_SCHEMA                                                                      \
  "(Tensor target_probs, Tensor? draft_probs, Tensor draft_tokens, Tensor uniforms, bool " \
  "normalized, int rule)"

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("sample" SAMPLE_SCHEMA " -> Tensor");
  ops.def("sample.numbers" SAMPLE_NUMBERS_SCHEMA " -> Tensor");
  ops.def("sample.check" SAMPLE_SCHEMA " -> ()");
  ops.def("filter_logits" FILTER_LOGITS_SCHEMA " -> Tensor");
  ops.def("filter_logits.check" FILTER_LOGITS_SCHEMA " -> ()");
  ops.def("verify" VERIFY_SCHEMA " -> (Tensor, Tensor)");
  ops.def("verify.check" VERIFY_SCHEMA " -> ()");
  ops.def("logprobs" LOGPROBS_SCHEMA " -> (Tensor, Tensor)");
  ops.def("verify_greedy" VERIFY_GREEDY_SCHEMA " -> (SymInt, SymInt)");
  ops.def("verify_greedy.tensors" VERIFY_GREEDY_SCHEMA " -> (Tensor, Tensor)");
  ops.def("verify_greedy.check" VERIFY_GREEDY_SCHEMA " -> ()");
  ops.def("accept" ACCEPT_SCHEMA " -> (SymInt, SymInt)");
  ops.def("accept.tensors" ACCEPT_SCHEMA " -> (Tensor, Tensor)");
  ops.def(
      "accept.check(Tensor target_probs, Tensor? draft_probs, Tensor draft_tokens, "
      "Tensor? uniforms) -> ()");
  ops.def("cpu_target(str name) -> str");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
  ops.impl("sample.check", TORCH_BOX(&spec_decode_ops::check_sample));
  ops.impl("filter_logits.check", TORCH_BOX(&spec_decode_ops::check_filter_logits));
  ops.impl("verify.check", TORCH_BOX(&spec_decode_ops::check_verify));
  ops.impl("verify_greedy.check", TORCH_BOX(&spec_decode_ops::check_verify_greedy));
  ops.impl("accept.check", TORCH_BOX(&spec_decode_ops::check_accept));
  ops.impl("cpu_target", TORCH_BOX(&spec_decode_ops::cpu_target));
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("sample", TORCH_BOX(&spec_decode_ops::sample_cpu));
  ops.impl("sample.numbers", TORCH_BOX(&spec_decode_ops::sample_numbers_cpu));
  ops.impl("filter_logits", TORCH_BOX(&spec_decode_ops::filter_logits_cpu));
  ops.impl("verify", TORCH_BOX(&spec_decode_ops::verify_cpu));
  ops.impl("logprobs", TORCH_BOX(&spec_decode_ops::logprobs_cpu));
  ops.impl("verify_greedy", TORCH_BOX(&spec_decode_ops::verify_greedy_cpu));
  ops.impl("verify_greedy.tensors", TORCH_BOX(&spec_decode_ops::verify_greedy_tensors_cpu));
  ops.impl("accept", TORCH_BOX(&spec_decode_ops::accept_cpu));
  ops.impl("accept.tensors", TORCH_BOX(&spec_decode_ops::accept_tensors_cpu));
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("sample", TORCH_BOX(&spec_decode_ops::sample_cuda));
  ops.impl("filter_logits", TORCH_BOX(&spec_decode_ops::filter_logits_cuda));
  ops.impl("verify", TORCH_BOX(&spec_decode_ops::verify_cuda));
  ops.impl("logprobs", TORCH_BOX(&spec_decode_ops::logprobs_cuda));
  ops.impl("verify_greedy.tensors", TORCH_BOX(&spec_decode_ops::verify_greedy_tensors_cuda));
  ops.impl("accept.tensors", TORCH_BOX(&spec_decode_ops::accept_tensors_cuda));
}
#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
