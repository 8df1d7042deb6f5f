// SPDX-License-Identifier: Apache-2.0
// The schemas. Integers are SymInt, so that one compiled graph serves every seed and offset, and
// each number has a tensor twin, read on the device. Without a seed, or without uniforms, an op
// takes them from torch's default generator. An op's overload `check` only checks its arguments;
// `tensors` returns tensors where the op itself returns numbers; `numbers` has no tensor twins,
// because each argument of a schema, also one that is left out, costs a call as much as a small row
// does. `rule` is the place of the method's name among "token", "block" and "coupled", `algorithm`
// that among "auto", "sort" and "select".
#include "torch_binding.h"

#include <torch/csrc/stable/library.h>

#include "registration.h"

#define FILTER_NUMBERS                                                               \
  "SymInt top_k=0, float top_p=1.0, float min_p=0.0, float repetition_penalty=1.0, " \
  "Tensor? prev_tokens=None"
#define FILTER_TENSORS                                                            \
  "int algorithm=0, Tensor? temperature_tensor=None, Tensor? top_k_tensor=None, " \
  "Tensor? top_p_tensor=None, Tensor? min_p_tensor=None, "                        \
  "Tensor? repetition_penalty_tensor=None"
#define NOISE_TENSORS "Tensor? seed_tensor=None, Tensor? offset_tensor=None"

#define SAMPLE_NUMBERS_SCHEMA \
  "Tensor logits, float temperature, SymInt? seed, SymInt offset, " FILTER_NUMBERS
#define SAMPLE_SCHEMA "(" SAMPLE_NUMBERS_SCHEMA ", " FILTER_TENSORS ", " NOISE_TENSORS ")"
#define FILTER_LOGITS_NUMBERS_SCHEMA "Tensor logits, float temperature, " FILTER_NUMBERS
#define FILTER_LOGITS_SCHEMA "(" FILTER_LOGITS_NUMBERS_SCHEMA ", " FILTER_TENSORS ")"
#define VERIFY_NUMBERS_SCHEMA                                                            \
  "Tensor target_logits, Tensor? draft_logits, Tensor draft_tokens, float temperature, " \
  "SymInt? seed, SymInt offset, int rule, " FILTER_NUMBERS
#define VERIFY_SCHEMA \
  "(" VERIFY_NUMBERS_SCHEMA ", " FILTER_TENSORS ", " NOISE_TENSORS ", Tensor? words=None)"
#define LOGPROBS_SCHEMA \
  "(Tensor logits, Tensor tokens, float temperature, " FILTER_NUMBERS ", " FILTER_TENSORS ")"
#define VERIFY_GREEDY_SCHEMA "(Tensor target_probs, Tensor draft_tokens)"
#define ACCEPT_SCHEMA                                                                       \
  "(Tensor target_probs, Tensor? draft_probs, Tensor draft_tokens, Tensor? uniforms, bool " \
  "normalized, int rule)"

namespace spec_decode_ops {
namespace {

// The overloads `numbers`.
template <Tensor (*kSample)(SAMPLE_ARGUMENTS)>
Tensor sample_numbers(SAMPLE_NUMBERS) {
  return kSample(logits, temperature, seed, offset, FILTER_OF_NUMBERS, {}, {});
}
template <Tensor (*kFilter)(FILTER_LOGITS_ARGUMENTS)>
Tensor filter_logits_numbers(FILTER_LOGITS_NUMBERS) {
  return kFilter(logits, temperature, FILTER_OF_NUMBERS);
}
template <TwoTensors (*kVerify)(VERIFY_ARGUMENTS)>
TwoTensors verify_numbers(VERIFY_NUMBERS) {
  return kVerify(target_logits, draft_logits, draft_tokens, temperature, seed, offset, rule,
                 FILTER_OF_NUMBERS, {}, {}, {});
}

void implement_on_cpu(torch::stable::detail::StableLibrary& ops) {
  ops.impl("sample", TORCH_BOX(&sample_cpu));
  ops.impl("sample.numbers", TORCH_BOX(&sample_numbers<sample_cpu>));
  ops.impl("filter_logits", TORCH_BOX(&filter_logits_cpu));
  ops.impl("filter_logits.numbers", TORCH_BOX(&filter_logits_numbers<filter_logits_cpu>));
  ops.impl("verify", TORCH_BOX(&verify_cpu));
  ops.impl("verify.numbers", TORCH_BOX(&verify_numbers<verify_cpu>));
  ops.impl("logprobs", TORCH_BOX(&logprobs_cpu));
  ops.impl("verify_greedy", TORCH_BOX(&verify_greedy_cpu));
  ops.impl("verify_greedy.tensors", TORCH_BOX(&verify_greedy_tensors_cpu));
  ops.impl("accept", TORCH_BOX(&accept_cpu));
  ops.impl("accept.tensors", TORCH_BOX(&accept_tensors_cpu));
}

}  // namespace
}  // namespace spec_decode_ops

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("sample" SAMPLE_SCHEMA " -> Tensor");
  ops.def("sample.numbers(" SAMPLE_NUMBERS_SCHEMA ") -> Tensor");
  ops.def("sample.check" SAMPLE_SCHEMA " -> ()");
  ops.def("filter_logits" FILTER_LOGITS_SCHEMA " -> Tensor");
  ops.def("filter_logits.numbers(" FILTER_LOGITS_NUMBERS_SCHEMA ") -> Tensor");
  ops.def("filter_logits.check" FILTER_LOGITS_SCHEMA " -> ()");
  ops.def("verify" VERIFY_SCHEMA " -> (Tensor, Tensor)");
  ops.def("verify.numbers(" VERIFY_NUMBERS_SCHEMA ") -> (Tensor, Tensor)");
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

// Sparse tensors too come to the ops, which say what is wrong with them.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  spec_decode_ops::implement_on_cpu(ops);
}
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, SparseCPU, ops) {
  spec_decode_ops::implement_on_cpu(ops);
}
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, SparseCsrCPU, ops) {
  spec_decode_ops::implement_on_cpu(ops);
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("sample", TORCH_BOX(&spec_decode_ops::sample_cuda));
  ops.impl("sample.numbers",
           TORCH_BOX(&spec_decode_ops::sample_numbers<spec_decode_ops::sample_cuda>));
  ops.impl("filter_logits", TORCH_BOX(&spec_decode_ops::filter_logits_cuda));
  ops.impl("filter_logits.numbers",
           TORCH_BOX(&spec_decode_ops::filter_logits_numbers<spec_decode_ops::filter_logits_cuda>));
  ops.impl("verify", TORCH_BOX(&spec_decode_ops::verify_cuda));
  ops.impl("verify.numbers",
           TORCH_BOX(&spec_decode_ops::verify_numbers<spec_decode_ops::verify_cuda>));
  ops.impl("logprobs", TORCH_BOX(&spec_decode_ops::logprobs_cuda));
  ops.impl("verify_greedy.tensors", TORCH_BOX(&spec_decode_ops::verify_greedy_tensors_cuda));
  ops.impl("accept.tensors", TORCH_BOX(&spec_decode_ops::accept_tensors_cuda));
}
#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
