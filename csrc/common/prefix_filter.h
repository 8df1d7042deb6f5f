// SPDX-License-Identifier: Apache-2.0
// top-k, top-p and min-p each keep a prefix of the row's order (order.h), and so does their chain.
// A filter is therefore one Cut: the place in the order from which on tokens are dropped.
//
//   top-k  keeps every token equal to the k-th value or above it.
//   top-p  keeps a token while the mass before it, among what top-k kept, is under top_p of the
//          whole: the crossing token stays (Holtzman et al. 2020).
//   min-p  drops every class of equal quotients with a member under min_p of the largest
//          probability (Nguyen et al. 2024).
// Each keeps at least one token: the first.
#pragma once

#include "common/mass.h"
#include "common/order.h"
#include "common/wide.h"

namespace spec_decode_ops {

struct Cut {
  float value;  // quotients above this are kept,
  int32_t id;   // and of those equal to it the tokens below this id
};

HOST_DEVICE Cut keep_all() { return {-kInfinity, 0}; }

HOST_DEVICE bool kept(float y, int32_t token, const Cut& cut) {
  return y > cut.value || (y == cut.value && token < cut.id);
}

// The cut that drops more.
HOST_DEVICE Cut stricter(const Cut& a, const Cut& b) {
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.id < b.id ? a : b;
}

// ceil(fraction * total) for a float64 fraction in [0, 1), exactly: a count of mass below it is a
// mass below fraction * total.
HOST_DEVICE uint64_t quota(double fraction, uint64_t total) {
  uint64_t pattern;
  std::memcpy(&pattern, &fraction, sizeof pattern);
  const int biased = int(pattern >> 52 & 0x7ff);
  const uint64_t digits = (pattern & 0xfffffffffffffu) | (biased ? uint64_t(1) << 52 : 0);
  const int shift = 1075 - (biased ? biased : 1);  // fraction == digits / 2^shift, shift >= 53
  const Wide product = multiply(digits, total);
  if (is_zero(product)) return 0;
  if (shift >= 128) return 1;
  const bool beyond = shift >= 64;
  const int part = shift % 64;
  const uint64_t up = beyond ? 0 : product.high, down = beyond ? product.high : product.low;
  const uint64_t floor = part ? up << (64 - part) | down >> part : down;
  const uint64_t below = part ? down << (64 - part) : 0;
  const bool rest = (below | (beyond ? product.low : 0)) != 0;
  return floor + rest;
}

// The mass that must stand before a token for top-p to drop it; never 0, so the first token stays.
HOST_DEVICE uint64_t top_p_quota(double top_p, uint64_t total) {
  const uint64_t need = top_p > 0.0 ? quota(top_p, total) : 0;
  return need ? need : 1;
}

// The mass under which min-p drops a token.
HOST_DEVICE uint64_t min_p_bound(double min_p) {
  return min_p < 1.0 ? quota(min_p, kMassOfMax) : kMassOfMax;
}

}  // namespace spec_decode_ops
