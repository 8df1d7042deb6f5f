// SPDX-License-Identifier: Apache-2.0
// The residual max(p - q, 0) of two laws, summed over a tile: exactly, and with few wide products.
// Over the tokens where p/P > q/Q the sum of p * Q - q * P is Q * (sum of p) - P * (sum of q); and
// on which side a token stands, floats tell unless the two are nearly equal.
#pragma once

#include "common/accept.h"
#include "cpu/mass-inl.h"

namespace spec_decode_ops {
namespace {

struct Totals {
  uint64_t p, q;
};

// The residual of lanes that floats cannot tell apart.
inline Wide residual_of_lanes(uint32_t lanes, F target, F draft, const Totals& total) {
  float e[kLanes], f[kLanes];
  store(e, target);
  store(f, draft);
  Wide sum{0, 0};
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    const uint64_t p = mass_of_weight(e[lane]), q = mass_of_weight(f[lane]);
    sum = add(sum, residual(p, total.p, q, total.q));
  }
  return sum;
}

// Of a tile x of the target and a tile z of the draft. requires totals above 0
template <class TargetWeight, class DraftWeight>
inline Wide residual_of_tile(const float* x, const TargetWeight& target_weight, const float* z,
                             const DraftWeight& draft_weight, const Totals& total) {
  const float ratio = float(double(total.q) / double(total.p));
  // A mass is its weight to 2^-44, and four roundings follow.
  const F relative = set1(0x1p-20f), absolute = set1(0x1p-42f * (1.0f + ratio));
  const F weightless = set1(0x1p-45f), factor = set1(ratio);
  const F none = set1(0.0f);
  const Weights target(x, kTile, target_weight), draft(z, kTile, draft_weight);
  BareSum targets, drafts;
  Wide close{0, 0};
  for (int i = 0; i < kTile; i += kLanes) {
    const F e = target.at(i), f = draft.at(i), scaled = mul(e, factor);
    const F doubt = fma(add(scaled, f), relative, absolute);
    const F excess = sub(scaled, f);
    targets.take(choose_gt(excess, doubt, e, none));
    drafts.take(choose_gt(excess, doubt, f, none));
    const F distance = larger(excess, sub(f, scaled));
    if (any_ge(doubt, distance)) {
      const uint32_t untold = mask_ge(doubt, distance) & mask_ge(larger(e, f), weightless);
      close = add(close, residual_of_lanes(untold, e, f, total));
    }
  }
  constexpr int kVectors = kTile / kLanes;
  const Wide difference =
      sub(multiply(targets.total(kVectors), total.q), multiply(drafts.total(kVectors), total.p));
  return add(difference, close);
}

// The same for probabilities in one unit over one total. Rounding to it keeps their order, so that
// the residual of a token is the mass of p less that of the smaller of p and q.
inline Wide residual_of_like_tile(const float* x, const float* z, uint64_t total) {
  const F zero = set1(0.0f), one = set1(1.0f);
  MassSum sum;
  for (int i = 0; i < kTile; i += kLanes) {
    const F p = smaller(larger(load(x + i), zero), one);
    const F shared = smaller(larger(load(z + i), zero), p);
    sum.take(sub(mass_units(p), mass_units(shared)), sub(mass_rest(p), mass_rest(shared)));
  }
  return multiply(sum.total(), total);
}

}  // namespace
}  // namespace spec_decode_ops
