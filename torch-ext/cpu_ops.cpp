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

#define FILTER                                                                              \
  FilterArgs {                                                                              \
    temperature, top_k, top_p, min_p, repetition_penalty, temperature_tensor, top_k_tensor, \
        top_p_tensor, min_p_tensor, repetition_penalty_tensor, prev_tokens                  \
  }
#define NOISE \
  NoiseArgs { seed, offset, seed_tensor, offset_tensor }

Tensor sample_cpu(Tensor logits, FILTER_ARGUMENTS, NOISE_ARGUMENTS) {
  const FloatMode to_nearest;
  const SampleCall call = prepare_sample(logits, FILTER, NOISE);
  run(target().sample, call.params, call.rows, call.params.logits.vocab);
  return call.token;
}

Tensor filter_logits_cpu(Tensor logits, FILTER_ARGUMENTS) {
  const FloatMode to_nearest;
  const FilterCall call = prepare_filter(logits, FILTER);
  run(target().filter_logits, call.params, call.rows, call.params.logits.vocab);
  return call.out;
}

std::tuple<Tensor, Tensor> verify_cpu(Tensor target_logits, MaybeTensor draft_logits,
                                      Tensor draft_tokens, FILTER_ARGUMENTS, NOISE_ARGUMENTS,
                                      bool coupled, MaybeTensor words) {
  const FloatMode to_nearest;
  const VerifyCall call =
      prepare_verify(target_logits, draft_logits, draft_tokens, FILTER, NOISE, coupled, words);
  run(target().verify, call.params, call.rows, call.params.target.vocab);
  return {call.accept_length, call.out};
}

std::tuple<int64_t, int64_t> verify_greedy_cpu(Tensor target_probs, Tensor draft_tokens) {
  const FloatMode to_nearest;
  AcceptParams p =
      prepare_accept("verify_greedy", target_probs, MaybeTensor(), draft_tokens, nullptr, false);
  int64_t accept_length, next_token;
  p.accept_length = &accept_length;
  p.next_token = &next_token;
  run(target().accept, p, 1, p.target.vocab);
  return {accept_length, next_token};
}

std::tuple<int64_t, int64_t> accept_cpu(Tensor target_probs, MaybeTensor draft_probs,
                                        Tensor draft_tokens, Tensor uniforms, bool normalized) {
  const FloatMode to_nearest;
  AcceptParams p =
      prepare_accept("accept", target_probs, draft_probs, draft_tokens, &uniforms, normalized);
  int64_t accept_length, next_token;
  p.accept_length = &accept_length;
  p.next_token = &next_token;
  run(target().accept, p, 1, p.target.vocab);
  return {accept_length, next_token};
}

}  // namespace spec_decode_ops
