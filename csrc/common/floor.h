// SPDX-License-Identifier: Apache-2.0
// Floors: values under which a token cannot matter, whatever was rounded on the way. They decide
// how much work is done, never a token.
#pragma once

#include "common/gumbel.h"
#include "common/order.h"

namespace spec_decode_ops {

// A quotient under which every token weighs less than `least`, relative to the row's `largest`.
HOST_DEVICE float mass_floor(float largest, float least) {
  const float slack = 1e-3f + magnitude(largest) * 1e-6f;
  return keep_finite(largest + log_normal(least) - slack, largest);
}

// A quotient under which no token with a non-zero coarse byte beats a score of `best`.
HOST_DEVICE float noise_floor(float best) {
  return keep_finite(best - kGumbelUnlessZero - 1e-5f - magnitude(best) * 1e-6f, best);
}

// A logit under which no quotient reaches y. requires T > 0
HOST_DEVICE float logit_floor(float y, float temperature) {
  if (y <= -kMaxFloat) return -kMaxFloat;  // what overflows counts as this
  const float x = mul(y, temperature);
  const float floor = sub(x, fma(magnitude(x), 1e-6f, 1e-37f));
  return floor > -kMaxFloat ? (floor < kMaxFloat ? floor : kMaxFloat) : -kMaxFloat;
}

}  // namespace spec_decode_ops
