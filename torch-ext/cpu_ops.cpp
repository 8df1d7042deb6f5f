// SPDX-License-Identifier: Apache-2.0
// The ops on the CPU: rows are shared out over torch's threads when that pays.
#include <pthread.h>
#include <torch/csrc/stable/ops.h>

#include <atomic>
#include <stdexcept>

#include "cpu/float_mode.h"
#include "cpu/target.h"
#include "op_params.h"
#include "torch_binding.h"

namespace spec_decode_ops {
namespace {

// Torch's threads do not survive a fork: in the child the kernels run on the calling thread.
std::atomic<bool> in_forked_child{false};
const int watch_forks = pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });

// A second thread pays from about this many tokens for each.
constexpr int64_t kTokensPerThread = 32768;

template <class Params>
void run(void (*kernel)(const Params&, int64_t, int64_t), const Params& params, int64_t rows,
         int64_t tokens_per_row) {
  std::atomic<bool> out_of_memory{false};
  const auto work = [&](int64_t first_row, int64_t last_row) {
    const FloatMode to_nearest;  // a pool thread has a mode of its own
    try {
      kernel(params, first_row, last_row);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  };
  if (rows * tokens_per_row < 2 * kTokensPerThread || rows < 2 || in_forked_child) {
    work(0, rows);
  } else {
    const int64_t grain = (kTokensPerThread + tokens_per_row - 1) / tokens_per_row;
    torch::stable::parallel_for(0, rows, grain, work);
  }
  if (out_of_memory)
    throw std::runtime_error("spec_decode_ops: no memory for the workspace of a row");
}

}  // namespace

std::string cpu_target(Text name) {
  const std::string wanted = name;
  if (!wanted.empty()) force_target(wanted);
  return target().name;
}

Tensor sample_cpu(SAMPLE_ARGUMENTS) {
  const FloatMode to_nearest;
  SampleCall call = prepare_sample(logits, FILTER, NOISE, algorithm);
  draw_seed(call, logits);
  const Tensor token = token_output(call, logits);
  run(target().sample, call.params, call.rows, call.params.logits.vocab);
  return token;
}

Tensor filter_logits_cpu(FILTER_LOGITS_ARGUMENTS) {
  const FloatMode to_nearest;
  FilterCall call = prepare_filter(logits, FILTER, algorithm);
  const Tensor out = logits_output(call, logits);
  run(target().filter_logits, call.params, call.rows, call.params.logits.vocab);
  return out;
}

TwoTensors verify_cpu(VERIFY_ARGUMENTS) {
  const FloatMode to_nearest;
  VerifyCall call = prepare_verify(target_logits, draft_logits, draft_tokens, FILTER, NOISE, rule,
                                   words, algorithm);
  draw_seed(call, target_logits);
  const TwoTensors verdict = verdict_outputs(call, target_logits);
  run(target().verify, call.params, call.rows, call.params.target.vocab);
  return verdict;
}

TwoTensors logprobs_cpu(LOGPROBS_ARGUMENTS) {
  const FloatMode to_nearest;
  LogprobCall call = prepare_logprobs(logits, tokens, FILTER, algorithm);
  const TwoTensors found = logprob_outputs(call, logits);
  run(target().logprobs, call.params, call.rows,
      call.params.tokens.length * call.params.logits.vocab);
  return found;
}

namespace {

TwoNumbers numbers(AcceptCall call) {
  int64_t accept_length, next_token;
  call.params.accept_length = &accept_length;
  call.params.next_token = &next_token;
  run(target().accept, call.params, 1, call.params.target.vocab);
  return {accept_length, next_token};
}

TwoTensors tensors(AcceptCall call, const Tensor& target_probs) {
  const TwoTensors verdict = verdict_outputs(call, target_probs);
  run(target().accept, call.params, call.rows, call.params.target.vocab);
  return verdict;
}

}  // namespace

TwoNumbers verify_greedy_cpu(VERIFY_GREEDY_ARGUMENTS) {
  const FloatMode to_nearest;
  return numbers(prepare_accept("verify_greedy", target_probs, MaybeTensor(), draft_tokens,
                                MaybeTensor(), false, kTokenRule, false));
}

TwoTensors verify_greedy_tensors_cpu(VERIFY_GREEDY_ARGUMENTS) {
  const FloatMode to_nearest;
  return tensors(prepare_accept("verify_greedy", target_probs, MaybeTensor(), draft_tokens,
                                MaybeTensor(), false, kTokenRule, true),
                 target_probs);
}

TwoNumbers accept_cpu(ACCEPT_ARGUMENTS) {
  const FloatMode to_nearest;
  AcceptCall call = prepare_accept("accept", target_probs, draft_probs, draft_tokens, uniforms,
                                   normalized, rule, false);
  draw_uniforms(call, target_probs);
  return numbers(call);
}

TwoTensors accept_tensors_cpu(ACCEPT_ARGUMENTS) {
  const FloatMode to_nearest;
  AcceptCall call = prepare_accept("accept", target_probs, draft_probs, draft_tokens, uniforms,
                                   normalized, rule, true);
  draw_uniforms(call, target_probs);
  return tensors(call, target_probs);
}

}  // namespace spec_decode_ops
