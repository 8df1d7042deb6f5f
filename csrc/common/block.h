// SPDX-License-Identifier: Apache-2.0
// Block verification (Sun et al. 2024): of the k draft tokens of a round the first tau stand, where
// tau is the last i whose test passes, and the token after them is drawn from
//
//   W_i(x) = max(share_i * p_i(x) - q_i(x), 0)    for i = tau < k, and from p_k for tau = k.
//
// share_0 = 1 and share_{i+1} = min(1, share_i * p_i(t_i) / q_i(t_i)) is the chance that the first
// i + 1 tokens stand. Test k passes with chance share_k; test i, for 1 <= i < k, with chance
// S_i / (S_i + 1 - share_i), S_i being the sum of W_i. What is emitted is then distributed as p,
// and in the mean never fewer tokens stand than by the token rule (common/accept.h).
//
// p(x) = p / p_total and q(x) = q / q_total are ratios of integer masses, masses up to 2^43 and
// totals up to 2^63. A share is a whole number of units of 2^-63, rounded down; everything else is
// exact, in units of 2^-63 / (p_total * q_total). Rounded down so, it keeps the law of what is
// emitted to within less than 2^-63 a position.
#pragma once

#include "common/triple.h"

namespace spec_decode_ops {

constexpr uint64_t kWholeShare = uint64_t(1) << 63;  // of 1

// The share once a token of p and q stands beside those before it; divide(a, b) is floor(a / b) for
// b > 0 and a < 2^63 * b. requires q > 0, p_total > 0
template <class Divide>
HOST_DEVICE uint64_t next_share(uint64_t share, uint64_t p, uint64_t p_total, uint64_t q,
                                uint64_t q_total, Divide divide) {
  const Triple target = multiply(multiply(share, q_total), p);
  const Wide draft = multiply(p_total, q);
  return less(target, multiply(draft, kWholeShare)) ? divide(target, draft) : kWholeShare;
}

HOST_DEVICE uint64_t next_share(uint64_t share, uint64_t p, uint64_t p_total, uint64_t q,
                                uint64_t q_total) {
  const auto by_digits = [](Triple a, Wide b) { return divide(a, b); };
  return next_share(share, p, p_total, q, q_total, by_digits);
}

// Test k, word / 2^64 < share_k, whose share is not rounded: `share` is the one before the last
// token, of which p and q are the masses. A draft of one token is judged as by the token rule.
HOST_DEVICE bool last_stands(uint64_t word, uint64_t share, uint64_t p, uint64_t p_total,
                             uint64_t q, uint64_t q_total) {
  const Triple target = multiply(multiply(p, q_total), share);
  return less(multiply(multiply(q, p_total), word), add(target, target));
}

// Whether test i can pass, before the sum S_i is known: it is share_i at most, and with a share of
// 1 the test passes whatever it is.
HOST_DEVICE bool may_stand(uint64_t word, uint64_t share) {
  return share == kWholeShare || word >> 1 < share;
}

// W(x) = of_p * p - of_q * q for a token of masses p and q, where that is above 0.
struct BlockWeights {
  Wide of_p, of_q;
};

HOST_DEVICE BlockWeights block_weights(uint64_t share, uint64_t p_total, uint64_t q_total) {
  return {multiply(share, q_total), multiply(kWholeShare, p_total)};
}

// W(x) > 0
HOST_DEVICE bool keeps(const BlockWeights& weights, uint64_t p, uint64_t q) {
  return less(multiply(weights.of_q, q), multiply(weights.of_p, p));
}

// The sum of W over tokens that are kept, of which p and q are the sums of the masses.
HOST_DEVICE Triple weight_of_kept(const BlockWeights& weights, uint64_t p, uint64_t q) {
  return sub(multiply(weights.of_p, p), multiply(weights.of_q, q));
}

// Test i, for 1 <= i < k, with the sum S_i.
HOST_DEVICE bool stands(uint64_t word, Triple sum, uint64_t share, uint64_t p_total,
                        uint64_t q_total) {
  if (share == kWholeShare) return true;
  const Triple rest = multiply(multiply(p_total, q_total), kWholeShare - share);
  return less(scale(word, add(sum, rest)), sum);
}

}  // namespace spec_decode_ops
