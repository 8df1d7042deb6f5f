// SPDX-License-Identifier: Apache-2.0
// Speculative sampling (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2): accept
// draft token x with probability min(1, p(x)/q(x)); at the first rejection draw from
// max(p - q, 0), normalised. The token emitted is then distributed as p.
//
// p(x) = p / p_total and q(x) = q / q_total are ratios of integer masses below 2^64, u is the
// fraction u / 2^64, and every comparison is exact: no float u can round to 1.
#pragma once

#include "common/wide.h"

namespace spec_decode_ops {

// u * q(x) < p(x). requires q > 0
HOST_DEVICE bool accepts(uint64_t u, uint64_t p, uint64_t p_total, uint64_t q, uint64_t q_total) {
  return less(scale(u, multiply(q, p_total)), multiply(p, q_total));
}

// u in [0, 1) as a fraction of 2^64; what lies outside counts as the nearest end.
HOST_DEVICE uint64_t fraction_of(double u) {
  if (!(u > 0.0)) return 0;
  return u < 1.0 ? uint64_t(u * 0x1p64) : UINT64_MAX;
}

// p(x) > q(x): the residual max(p - q, 0) keeps x.
HOST_DEVICE bool keeps(uint64_t p, uint64_t p_total, uint64_t q, uint64_t q_total) {
  return less(multiply(q, p_total), multiply(p, q_total));
}

// The residual summed over tokens that it keeps, of which p and q are the sums of the masses, in
// units of 1 / (p_total * q_total).
HOST_DEVICE Wide weight_of_kept(uint64_t p, uint64_t p_total, uint64_t q, uint64_t q_total) {
  return sub(multiply(p, q_total), multiply(q, p_total));
}

}  // namespace spec_decode_ops
