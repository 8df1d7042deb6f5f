// SPDX-License-Identifier: Apache-2.0
// The total order of a row's tokens: by the rounded quotient x/T, larger first, -0 equal to +0, and
// among equals by the lower token id.
#pragma once

#include "common/divide.h"

namespace spec_decode_ops {

// The nearest finite float for a result that overflowed from finite operands.
HOST_DEVICE float keep_finite(float result, float operand) {
  if (!(operand < kInfinity && operand > -kInfinity)) return result;
  if (result > kMaxFloat) return kMaxFloat;
  return result < -kMaxFloat ? -kMaxFloat : result;
}

// Repetition penalty (Keskar et al. 2019, section 4.1; negative logits are multiplied).
HOST_DEVICE float penalise(float x, float penalty) {
  return keep_finite(x < 0.0f ? mul(x, penalty) : div(x, penalty), x);
}

// requires T > 0
HOST_DEVICE float quotient(float x, float temperature) {
  return keep_finite(div(x, temperature), x);
}

HOST_DEVICE float quotient(float x, const Divisor& temperature) {
  return keep_finite(divide(x, temperature), x);
}

// Integers in the order of floats, but for -0 below +0. requires no NaN
HOST_DEVICE uint32_t order_bits(float y) {
  const uint32_t bits = float_bits(y);
  return bits ^ (uint32_t(int32_t(bits) >> 31) | 0x80000000u);
}

// The same with -0 and +0 as one: key(a) < key(b) iff a < b. requires no NaN
HOST_DEVICE uint32_t order_key(float y) {
  return order_bits(add(y, 0.0f));  // -0 + 0 = +0
}

HOST_DEVICE float key_value(uint32_t key) {
  return bits_float(key ^ (uint32_t(int32_t(~key) >> 31) | 0x80000000u));
}

// The least finite logit whose quotient is at least y, so that a threshold on quotients is one on
// logits. It lies close to y * T, from where the search gallops. requires y <= quotient(FLT_MAX,
// T), T > 0
HOST_DEVICE float least_logit(float y, float temperature) {
  const auto reaches = [&](uint32_t key) { return quotient(key_value(key), temperature) >= y; };
  const float guess = mul(y, temperature);
  const uint32_t first = order_key(-kMaxFloat), last = order_key(kMaxFloat);
  uint32_t low = first, high = last;  // the answer is in [low, high]
  uint32_t middle = !(guess > -kMaxFloat) ? first : (guess < kMaxFloat ? order_key(guess) : last);
  for (uint32_t step = 1; low < high;) {
    if (reaches(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
    if (low > first && high < last) {
      middle = low + (high - low) / 2;
    } else if (low == first) {
      middle = high - first > step ? high - step : first;
    } else {
      middle = last - low > step ? low + step : last;
    }
    step = step < 0x40000000u ? 2 * step : step;
  }
  return key_value(low);
}

}  // namespace spec_decode_ops
