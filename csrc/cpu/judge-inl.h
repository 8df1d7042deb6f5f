// SPDX-License-Identifier: Apache-2.0
// What becomes of a draft token by the token rule (common/accept.h) or by equality.
#pragma once

#include "cpu/residual_draw-inl.h"

namespace spec_decode_ops {
namespace {

// What a position makes of its draft token: it is accepted, or `token` is emitted and the round
// ends.
struct Verdict {
  bool accepted;
  int token;
};

// The random fractions a position may use.
struct Fractions {
  uint64_t accept, residual, bonus;
};

inline Verdict end_of_draft(const Law& target, const Fractions& u) {
  return {false, draw_from_law(target, u.bonus)};
}

// The token rule. requires 0 <= token < 2^20; a law that lacks it gives it no mass
inline Verdict judge_by_ratio(const Law& target, const Law& draft, int token, const Fractions& u,
                              Workspace& work) {
  const uint64_t q = mass_of(draft, token);
  if (q == 0) return end_of_draft(target, u);
  if (accepts(u.accept, mass_of(target, token), target.total, q, draft.total)) return {true, token};
  return {false, draw_from_residual(target, draft, u.residual, work)};
}

inline Verdict judge_by_equality(int token, int64_t drafted) {
  return {token >= 0 && token == drafted, token};
}

}  // namespace
}  // namespace spec_decode_ops
