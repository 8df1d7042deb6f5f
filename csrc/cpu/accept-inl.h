// SPDX-License-Identifier: Apache-2.0
// verify_greedy and accept: verification of ready probability rows.
//
// A row's masses are its values in units of 2^(E - 43), 2^E the power of two at or above its
// largest value, and their sum stands for 1: rows need not be normalised. Where they are
// (`normalized`), E is 0 and 2^43 stands for 1, so that no row is summed; values above 1 count
// as 1.
#pragma once

#include "cpu/block-inl.h"
#include "cpu/rough-inl.h"
#include "cpu/sample-inl.h"

namespace spec_decode_ops {
namespace {

inline Row probability_row(const Logits& from, int64_t row, int64_t position, RowSpace& space) {
  return Row(position_data(from, row, position), from.dtype, from.vocab, space);
}

inline Law normalized_law(const Row& row) {
  Law law{};
  law.kind = Law::kProbabilities;
  law.row = &row;
  law.total = kMassOfMax;
  return law;
}

// The total is 0 if it is not known.
inline Law summed_law(const Row& row, uint64_t total) {
  const float largest = scan_maxima(row);
  Law law = normalized_law(row);
  law.infinite = largest == kInfinity;
  law.exponent = probability_exponent(largest);
  law.united = !law.infinite && UnitedWeight::fits(law.exponent);
  if (total) {
    law.total = total;
  } else {
    take_total(law);
  }
  return law;
}

inline Law law_of(const Row& row, bool normalized, uint64_t total) {
  return normalized ? normalized_law(row) : summed_law(row, total);
}

// Of draft position i, or of the final draw for i = drafts.
inline Fractions fractions_of(const AcceptParams& p, int64_t row, int64_t i) {
  const double* uniforms = p.uniforms + row * (p.drafted.length + 1);
  const uint64_t draw = fraction_of(uniforms[p.drafted.length]);
  return {fraction_of(uniforms[i]), draw, draw};
}

// Whether float sums tell what becomes of a draft token, and what they tell. Without a draft row
// the token was not drawn.
inline bool surely_judged(const Row& target, const Row* draft, int token, const Fractions& u,
                          Workspace& work, Verdict& verdict) {
  const Share p = share_of_probability(target, token);
  const Share q = draft ? share_of_probability(*draft, token) : kCertain;
  if (surely_accepted(u.accept, p, q)) {
    verdict = {true, token};
    return true;
  }
  if (!surely_rejected(u.accept, p, q)) return false;
  const int drawn = draft ? surely_drawn_from_probabilities(target, p.row, *draft, q.row,
                                                            2.5 * kOffBySum, u.residual, work)
                          : surely_drawn_without(token, target, p.row, u.residual, work);
  verdict = {false, drawn};
  return drawn >= 0;
}

inline Verdict judge_probabilities(const AcceptParams& p, int64_t row, int64_t position,
                                   Workspace& work) {
  const int64_t drafts = p.drafted.length;
  const int64_t drafted = position < drafts ? p.drafted.at(row, position) : -1;
  const Row target_row = probability_row(p.target, row, position, work.target);
  if (!p.uniforms) {
    return judge_by_equality(first_maximum(target_row, scan_maxima(target_row)), drafted);
  }
  const Fractions u = fractions_of(p, row, position);
  if (!in_vocabulary(drafted, p.target, p.draft)) {
    return end_of_draft(law_of(target_row, p.normalized, 0), u);
  }
  const int token = int(drafted);
  const auto judged = [&](const Row* draft_row) {
    Verdict verdict;
    if (!p.normalized && surely_judged(target_row, draft_row, token, u, work, verdict)) {
      return verdict;
    }
    const Law draft = draft_row ? law_of(*draft_row, p.normalized, 0) : one_token(token);
    return judge_by_ratio(law_of(target_row, p.normalized, 0), draft, token, u, work);
  };
  if (!p.draft.data) return judged(nullptr);
  const Row draft_row = probability_row(p.draft, row, position, work.draft);
  return judged(&draft_row);
}

// The rows of a sequence for the block rule.
struct ProbabilityRows {
  const AcceptParams& p;
  int64_t row;
  Workspace& work;

  int drafted(int64_t i) const {
    const int64_t token = p.drafted.at(row, i);
    return in_vocabulary(token, p.target, p.draft) ? int(token) : -1;
  }
  Fractions fractions(int64_t i) const { return fractions_of(p, row, i); }
  template <class Use>
  void with_target(int64_t i, uint64_t total, Use use) const {
    const Row probabilities = probability_row(p.target, row, i, work.target);
    use(law_of(probabilities, p.normalized, total));
  }
  template <class Use>
  void with_draft(int64_t i, uint64_t total, Use use) const {
    const Row probabilities = probability_row(p.draft, row, i, work.draft);
    use(law_of(probabilities, p.normalized, total));
  }
};

inline BlockVerdict accept_in_order(const AcceptParams& p, int64_t row, Workspace& work) {
  for (int64_t position = 0;; ++position) {
    const Verdict verdict = judge_probabilities(p, row, position, work);
    if (!verdict.accepted) return {position, verdict.token};
  }
}

inline void accept(const AcceptParams& p, int64_t first_row, int64_t last_row) {
  Workspace& work = workspace();
  work.reserve(p.target.vocab);
  if (p.draft.data) work.reserve(p.draft.vocab);
  // A deterministic draft has the same law under both rules, and the token rule reads fewer rows.
  const int64_t drafts = p.drafted.length;
  const bool block = p.rule == Rule::kBlock && p.draft.data && p.uniforms;
  if (block) work.reserve_drafted(drafts);
  for (int64_t r = first_row; r < last_row; ++r) {
    const BlockVerdict verdict = block ? judge_block(ProbabilityRows{p, r, work}, drafts, work)
                                       : accept_in_order(p, r, work);
    p.accept_length[r] = verdict.accepted;
    p.next_token[r] = verdict.token;
  }
}

}  // namespace
}  // namespace spec_decode_ops
