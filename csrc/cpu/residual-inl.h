// SPDX-License-Identifier: Apache-2.0
// What is left of p over a share of q, tile by tile, with few wide products. A token's weight is
// max(a * p - b * q, 0) for factors a and b of all tokens, so that over the tokens where it is
// above 0, which are kept, it sums to a * (sum of p) - b * (sum of q). On which side a token
// stands, floats tell unless the two are nearly equal.
#pragma once

#include "common/accept.h"
#include "common/block.h"
#include "cpu/mass-inl.h"

namespace spec_decode_ops {
namespace {

// The token rule's residual max(p/P - q/Q, 0), in units of 1 / (P * Q).
struct TokenResidual {
  using Weight = Wide;
  uint64_t p_total, q_total;

  float ratio() const { return float(double(q_total) / double(p_total)); }
  bool alike() const { return p_total == q_total; }
  bool keeps(uint64_t p, uint64_t q) const {
    return spec_decode_ops::keeps(p, p_total, q, q_total);
  }
  Wide weight(const KeptMass& kept) const {
    return weight_of_kept(kept.p, p_total, kept.q, q_total);
  }
};

// The block rule's, max(share * p/P - q/Q, 0).
struct BlockResidual {
  using Weight = Triple;
  BlockWeights weights;
  float factor;

  BlockResidual(uint64_t share, uint64_t p_total, uint64_t q_total)
      : weights(block_weights(share, p_total, q_total)),
        factor(float(double(share) * 0x1p-63 * double(q_total) / double(p_total))) {}
  float ratio() const { return factor; }
  bool alike() const {
    return weights.of_p.high == weights.of_q.high && weights.of_p.low == weights.of_q.low;
  }
  bool keeps(uint64_t p, uint64_t q) const { return spec_decode_ops::keeps(weights, p, q); }
  Triple weight(const KeptMass& kept) const { return weight_of_kept(weights, kept.p, kept.q); }
};

inline void add_to(KeptMass& sum, const KeptMass& more) {
  sum.p += more.p;
  sum.q += more.q;
}

template <class Residual>
inline void keep(const Residual& residual, uint64_t p, uint64_t q, KeptMass& kept) {
  if (residual.keeps(p, q)) add_to(kept, {p, q});
}

// Of lanes that floats cannot tell apart.
template <class Residual>
inline KeptMass kept_of_lanes(uint32_t lanes, F target, F draft, const Residual& residual) {
  float e[kLanes], f[kLanes];
  store(e, target);
  store(f, draft);
  KeptMass kept{0, 0};
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    keep(residual, mass_of_weight(e[lane]), mass_of_weight(f[lane]), kept);
  }
  return kept;
}

// Of a tile x of the target and a tile z of the draft. requires totals above 0
template <class Residual, class TargetWeight, class DraftWeight>
inline KeptMass kept_of_tile(const float* x, const TargetWeight& target_weight, const float* z,
                             const DraftWeight& draft_weight, const Residual& residual) {
  const float ratio = residual.ratio();
  // A mass is its weight to 2^-44, and four roundings follow.
  const F relative = set1(0x1p-20f), absolute = set1(0x1p-42f * (1.0f + ratio));
  const F weightless = set1(0x1p-45f), factor = set1(ratio);
  const F none = set1(0.0f);
  const Weights target(x, kTile, target_weight), draft(z, kTile, draft_weight);
  BareSum targets, drafts;
  KeptMass close{0, 0};
  for (int i = 0; i < kTile; i += kLanes) {
    const F e = target.at(i), f = draft.at(i), scaled = mul(e, factor);
    const F doubt = fma(add(scaled, f), relative, absolute);
    const F excess = sub(scaled, f);
    targets.take(choose_gt(excess, doubt, e, none));
    drafts.take(choose_gt(excess, doubt, f, none));
    const F distance = larger(excess, sub(f, scaled));
    if (any_ge(doubt, distance)) {
      const uint32_t untold = mask_ge(doubt, distance) & mask_ge(larger(e, f), weightless);
      add_to(close, kept_of_lanes(untold, e, f, residual));
    }
  }
  constexpr int kVectors = kTile / kLanes;
  add_to(close, {targets.total(kVectors), drafts.total(kVectors)});
  return close;
}

// The same for probabilities in one unit, where the factors are equal too. Rounding to the unit
// keeps their order, so that what is left of a token is the mass of p less that of the smaller of p
// and q; it counts as p's.
inline KeptMass kept_of_like_tile(const float* x, const float* z) {
  const F zero = set1(0.0f), one = set1(1.0f);
  MassSum sum;
  for (int i = 0; i < kTile; i += kLanes) {
    const F p = smaller(larger(load(x + i), zero), one);
    const F shared = smaller(larger(load(z + i), zero), p);
    sum.take(sub(mass_units(p), mass_units(shared)), sub(mass_rest(p), mass_rest(shared)));
  }
  return {sum.total(), 0};
}

}  // namespace
}  // namespace spec_decode_ops
