// SPDX-License-Identifier: Apache-2.0
// A row's probabilities as integers, so that a sum does not depend on order, split or alignment.
//
// Logits: with M the row's largest logit, token x has mass rint(e * 2^43), where e = exp((x - M)/T)
// <= 1 by our own exp2; its probability is mass / (sum of masses), and the sum is exact in 64 bits
// for a row of up to 2^20 tokens. Probabilities: mass is the value itself in a fixed-point unit.
// Masses are not monotone in x to the last bit: order tokens by x/T, never by mass.
#pragma once

#include "common/divide.h"

namespace spec_decode_ops {

constexpr int kMassBits = 43;
constexpr uint64_t kMassOfMax = uint64_t(1) << kMassBits;
constexpr int kMaxVocabBits = 20;

struct MassScale {
  float max;    // the row's largest logit
  float rate;   // log2(e) / T
  float floor;  // x - max below this counts as this: its mass is 0
};

// requires max finite, T > 0. The bounds on the rate keep `floor` a normal float; they change
// nothing unless T < 2^-125 or T > 2^120.
HOST_DEVICE MassScale mass_scale(float max, float temperature) {
  float rate = div(1.44269502162933349609375f, temperature);
  rate = rate < 0x1p126f ? rate : 0x1p126f;
  rate = rate > 0x1p-120f ? rate : 0x1p-120f;
  return {max, rate, div(-100.0f, rate)};
}

// 2^f for f in [-1/2, 1/2], within 1.72e-7 with its roundings, and exactly 1 at 0.
template <class F>
HOST_DEVICE F exp2_fraction(F f) {
  return horner(f, 1.0f, 0x1.62e42ap-1f, 0x1.ebf9bcp-3f, 0x1.c6b752p-5f, 0x1.3cea88p-7f,
                0x1.5bba14p-10f);
}

// e = exp((x - M)/T), in (0, 1]; NaN and -inf count as 2^-100.
template <class F>
HOST_DEVICE F weight(F x, const MassScale& scale) {
  const F magic = fill(x, 12582912.0f + 127.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F rate = fill(x, scale.rate);
  const F d = larger(sub(x, fill(x, scale.max)), fill(x, scale.floor));
  const F biased = fma(d, rate, magic);
  const F f = fma(d, rate, sub(magic, biased));
  return mul(exp2_fraction(f), shift_to_exponent(biased));
}

// The mass rint(e * 2^43) of e in [0, 1] in two pieces of 32 bits, without a 64-bit conversion:
// the bits of e + 6 count units of 2^-21, and those of what is left of e the rest in units of
// 2^-43. Every difference is exact.
constexpr float kUnitBase = 6.0f, kRestBase = 0x1.8p-20f;

template <class F>
HOST_DEVICE auto mass_units(F e) {
  return bits_above(add(e, fill(e, kUnitBase)), kUnitBase);
}
template <class F>
HOST_DEVICE auto mass_rest(F e) {
  const F taken = add(e, fill(e, kUnitBase));
  return bits_above(add(e, sub(fill(e, kUnitBase + kRestBase), taken)), kRestBase);
}
HOST_DEVICE uint64_t join_mass(int64_t units, int64_t rest) {
  return uint64_t(units) * (uint64_t(1) << 22) + uint64_t(rest);
}

HOST_DEVICE uint64_t mass_of_weight(float e) { return join_mass(mass_units(e), mass_rest(e)); }

HOST_DEVICE uint64_t mass(float x, const MassScale& scale) {
  return mass_of_weight(weight(x, scale));
}

// rint(p * 2^bits) for a probability p; ties to even; negative values and NaN count 0. Values from
// 2^(limit - bits) on count 2^limit. requires 0 <= limit < 64
HOST_DEVICE uint64_t fixed_point(float p, int bits, int limit) {
  if (!(p > 0.0f)) return 0;
  const uint32_t pattern = float_bits(p);
  const int biased = int(pattern >> 23);
  const uint64_t fraction = (pattern & 0x7fffffu) | (biased ? 0x800000u : 0u);
  const int shift = (biased ? biased : 1) - 150 + bits;  // p * 2^bits == fraction * 2^shift
  const uint64_t cap = uint64_t(1) << limit;
  if (shift >= 0) return shift > limit || fraction > cap >> shift ? cap : fraction << shift;
  if (shift < -25) return 0;
  const uint64_t half = uint64_t(1) << (-shift - 1), floor = fraction >> -shift;
  const uint64_t rest = fraction & (2 * half - 1);
  const uint64_t rounded = floor + (rest > half || (rest == half && (floor & 1)));
  return rounded < cap ? rounded : cap;
}

// The exponent E of the power of two at or above p. requires p > 0 and finite
HOST_DEVICE int exponent_above(float p) {
  const uint32_t pattern = float_bits(p);
  const bool normal = pattern >= 0x800000u;
  const uint32_t scaled = normal ? pattern : float_bits(mul(p, 0x1p24f));
  const int exponent = int(scaled >> 23) - 127 - (normal ? 0 : 24);
  return exponent + ((scaled & 0x7fffffu) != 0);
}

// The unit of a row of probabilities is 2^(E - 43), E being this of its largest entry. Entries of
// +inf share their row.
HOST_DEVICE int probability_exponent(float largest) {
  return largest > 0.0f && largest < kInfinity ? exponent_above(largest) : 0;
}

HOST_DEVICE uint64_t probability_mass(float p, bool infinite, int exponent) {
  if (infinite) return p == kInfinity ? kMassOfMax : 0;
  return fixed_point(p, kMassBits - exponent, kMassBits);
}

}  // namespace spec_decode_ops
