// SPDX-License-Identifier: Apache-2.0
// The log-probability of a token under softmax(x / T), in float32 and the same bits everywhere:
//
//   log p(t) = (x_t - M) / T - log Z,   Z = sum over tokens of exp((x - M) / T),
//
// M being the row's largest logit. The token's own mass is not used, so that a token too unlikely
// to have any has a finite value. Against exact arithmetic the error is under
// 2^-18 + 2^-22 |log p|: Z errs by the roundings of its weights (common/mass.h), log by 1.3 ulp.
//
// Z needs M, which is known at the row's end only. So that a row is read once, each strip of 512
// tokens is summed relative to its own largest logit, and what the strips hold is brought to M
// afterwards. Strips begin at multiples of 512: who sums them changes nothing.
#pragma once

#include "common/gumbel.h"
#include "common/mass.h"
#include "common/wide.h"

namespace spec_decode_ops {

constexpr int kMassStrip = 512;

// The mass of some tokens, relative to the largest logit of theirs or another: a strip's, a row's.
// Where that is +inf, the tokens that have it share the mass and all others have none.
struct StripMass {
  float max;      // -inf: no tokens
  uint64_t mass;  // in units of 2^-43
};

// requires T > 0
HOST_DEVICE MassScale strip_scale(float max, float temperature) {
  const bool finite = max > -kInfinity && max < kInfinity;
  return mass_scale(finite ? max : 0.0f, temperature);
}

// The mass of a strip relative to the row's largest logit, `row` being that logit's scale.
HOST_DEVICE uint64_t mass_in_row(const StripMass& strip, float row_max, const MassScale& row) {
  if (strip.max == row_max) return strip.mass;
  if (row_max == kInfinity || strip.max == -kInfinity) return 0;
  const Wide product = multiply(strip.mass, mass(strip.max, row));
  return product.high << (64 - kMassBits) | product.low >> kMassBits;
}

// log(mass / 2^43), within 1.3 ulp, near 0 too. requires 2^43 <= mass <= 2^63
HOST_DEVICE float log_mass(uint64_t mass) {
  const uint32_t high = uint32_t(mass >> 32);  // not 0
  const int zeros = leading_zeros(high);
  constexpr uint64_t kRootOfHalf = 0xb504f333f9de6484u;  // in units of 2^-64
  const int exponent = 63 - zeros + (mass << zeros > kRootOfHalf);
  const float above = float(int64_t(mass - (uint64_t(1) << exponent)));
  const float t = mul(above, bits_float(uint32_t(127 - exponent) << 23));
  return log_of_power(exponent - kMassBits, t);
}

// (x - max) / T for finite operands, at least -FLT_MAX.
HOST_DEVICE float log_weight(float x, float max, float temperature) {
  const float difference = sub(x, max);
  const float quotient = difference > -kInfinity ? div(difference, temperature)
                                                 : sub(div(x, temperature), div(max, temperature));
  return quotient > -kMaxFloat ? quotient : -kMaxFloat;
}

// log p of the token with logit x in the row; -inf for one that has none. requires T > 0
HOST_DEVICE float log_probability(float x, const StripMass& row, float temperature) {
  if (!(x > -kInfinity)) return -kInfinity;
  if (row.max == kInfinity && x < kInfinity) return -kInfinity;
  const float y = x < kInfinity ? log_weight(x, row.max, temperature) : 0.0f;
  return add(sub(y, log_mass(row.mass)), 0.0f);  // of a sure token: 0, not -0
}

// The same under temperature 0, which leaves what is largest.
HOST_DEVICE float greedy_log_probability(float x, float row_max) {
  return x == row_max && x > -kInfinity ? 0.0f : -kInfinity;
}

}  // namespace spec_decode_ops
