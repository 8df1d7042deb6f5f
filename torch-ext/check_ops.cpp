// SPDX-License-Identifier: Apache-2.0
// Checks without the work: a call that is refused must not have taken anything from a generator,
// so arguments are looked at before the draw.
#include "op_params.h"
#include "torch_binding.h"

namespace spec_decode_ops {

void check_sample(SAMPLE_ARGUMENTS) { prepare_sample(logits, FILTER, NOISE, algorithm); }

void check_filter_logits(FILTER_LOGITS_ARGUMENTS) { prepare_filter(logits, FILTER, algorithm); }

void check_verify(VERIFY_ARGUMENTS) {
  prepare_verify(target_logits, draft_logits, draft_tokens, FILTER, NOISE, rule, words, algorithm);
}

void check_verify_greedy(VERIFY_GREEDY_ARGUMENTS) {
  prepare_accept("verify_greedy", target_probs, MaybeTensor(), draft_tokens, MaybeTensor(), false,
                 kTokenRule, true);
}

void check_accept(Tensor target_probs, MaybeTensor draft_probs, Tensor draft_tokens,
                  MaybeTensor uniforms) {
  prepare_accept("accept", target_probs, draft_probs, draft_tokens, uniforms, false, kTokenRule,
                 true);
}

}  // namespace spec_decode_ops
