// SPDX-License-Identifier: Apache-2.0
// The block rule (common/block.h) over one sequence: rows are read once for the masses of the
// drafted tokens, and again only where a test needs the sum of a residual.
#pragma once

#include "cpu/judge-inl.h"

namespace spec_decode_ops {
namespace {

// How many tokens stand, and the one after them.
struct BlockVerdict {
  int64_t accepted;
  int token;
};

// The rows of a sequence are given by
//   rows.drafted(i)                  the token at i; -1 if it is in neither vocabulary
//   rows.fractions(i)                the random fractions of position i
//   rows.with_target(i, total, use)  use(law), the law's total being this, or 0 if it is not known
//   rows.with_draft(i, total, use)   the same

// The masses of the token at i. False where the draft ends.
template <class Rows>
inline bool read_drafted(const Rows& rows, int64_t i, DraftedMass& drafted) {
  const int token = rows.drafted(i);
  if (token < 0) return false;
  rows.with_draft(i, 0, [&](const Law& draft) {
    drafted.q = mass_of(draft, token);
    drafted.q_total = draft.total;
  });
  if (drafted.q == 0) return false;
  rows.with_target(i, 0, [&](const Law& target) {
    drafted.p = mass_of(target, token);
    drafted.p_total = target.total;
  });
  return drafted.p_total > 0;
}

// Whether test i passes, and the token drawn if so. Test 0 passes always.
template <class Rows>
inline bool draw_if_it_stands(const Rows& rows, int64_t i, Workspace& work, int& token) {
  const DraftedMass& at = work.drafted[i];
  const BlockResidual residual(at.share, at.p_total, at.q_total);
  bool passes = false;
  rows.with_target(i, at.p_total, [&](const Law& target) {
    rows.with_draft(i, at.q_total, [&](const Law& draft) {
      const KeptMass whole = keep_tiles(target, draft, residual, work);
      passes = i == 0 || stands(rows.fractions(i - 1).accept, residual.weight(whole), at.share,
                                at.p_total, at.q_total);
      if (!passes) return;
      const uint64_t fraction = rows.fractions(i).residual;
      token = draw_from_kept(target, draft, residual, whole, fraction, work);
    });
  });
  return passes;
}

// requires room for the drafts in `work`
template <class Rows>
inline BlockVerdict judge_block(const Rows& rows, int64_t drafts, Workspace& work) {
  DraftedMass* drafted = work.drafted;
  // Pass 1: up to where the draft ends, or cannot stand any further.
  int64_t count = 0;
  while (count < drafts && read_drafted(rows, count, drafted[count])) {
    DraftedMass& at = drafted[count];
    at.share = kWholeShare;
    if (count) {
      const DraftedMass& last = drafted[count - 1];
      at.share = next_share(last.share, last.p, last.p_total, last.q, last.q_total);
    }
    ++count;
    if (at.p == 0) break;
  }
  const auto word = [&](int64_t i) { return rows.fractions(i).accept; };
  bool all_stand = true;
  if (count) {
    const DraftedMass& last = drafted[count - 1];
    all_stand =
        last_stands(word(count - 1), last.share, last.p, last.p_total, last.q, last.q_total);
  }
  int token = -1;
  if (all_stand) {
    rows.with_target(count, 0, [&](const Law& target) {
      token = draw_from_law(target, rows.fractions(count).bonus);
    });
    return {count, token};
  }
  // Pass 2: the tests below, from the last down.
  for (int64_t i = count - 1;; --i) {
    if (i && !may_stand(word(i - 1), drafted[i].share)) continue;
    if (draw_if_it_stands(rows, i, work, token)) return {i, token};
  }
}

}  // namespace
}  // namespace spec_decode_ops
