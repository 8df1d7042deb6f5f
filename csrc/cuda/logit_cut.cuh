// SPDX-License-Identifier: Apache-2.0
// A row's cut in terms of its logits, so that no quotient is needed to apply it.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

__device__ __forceinline__ LogitCut logit_cut(const Cut& cut, float temperature) {
  const float last = quotient(kMaxFloat, temperature);
  const float next = key_value(order_key(cut.value) + 1);
  const float from = cut.value <= last ? least_logit(cut.value, temperature) : kInfinity;
  const float above = next <= last ? least_logit(next, temperature) : kInfinity;
  return {from, above, cut.id};
}

}  // namespace cuda
}  // namespace spec_decode_ops
