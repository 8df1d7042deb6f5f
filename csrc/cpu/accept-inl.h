// SPDX-License-Identifier: Apache-2.0
// verify_greedy and accept: verification of ready probability rows.
//
// A row's masses are its values in units of 2^(E - 43), 2^E the power of two at or above its
// largest value, and their sum stands for 1: rows need not be normalised. Where they are
// (`normalized`), E is 0 and 2^43 stands for 1, so that no row is summed; values above 1 count
// as 1.
#pragma once

#include "cpu/law-inl.h"
#include "cpu/rough-inl.h"
#include "cpu/sample-inl.h"

namespace spec_decode_ops {
namespace {

inline Row probability_row(const Logits& from, int64_t row, int64_t position, RowSpace& space) {
  return Row(position_data(from, row, position), from.dtype, from.vocab, space);
}

inline Law law_of(const Row& row, bool normalized) {
  Law law{};
  law.kind = Law::kProbabilities;
  law.row = &row;
  law.total = kMassOfMax;
  if (normalized) return law;
  const float largest = scan_maxima(row);
  law.infinite = largest == kInfinity;
  law.exponent = probability_exponent(largest);
  law.united = !law.infinite && UnitedWeight::fits(law.exponent);
  take_total(law);
  return law;
}

inline Verdict judge_probabilities(const AcceptParams& p, int64_t row, int64_t position,
                                   Workspace& work) {
  const int64_t drafts = p.drafted.length;
  const int64_t drafted = position < drafts ? p.drafted.at(row, position) : -1;
  const Row target_row = probability_row(p.target, row, position, work.target);
  if (!p.uniforms) {
    return judge_by_equality(first_maximum(target_row, scan_maxima(target_row)), drafted);
  }
  const double* uniforms = p.uniforms + row * (drafts + 1);
  const auto word = [&](int64_t i) { return fraction_of(uniforms[i]); };
  const Fractions u = {word(position), word(drafts), word(drafts)};
  if (!in_vocabulary(drafted, p.target, p.draft)) {
    return end_of_draft(law_of(target_row, p.normalized), u, work);
  }
  const int token = int(drafted);
  const auto surely = [&](const Share& draft) {
    return surely_accepted(u.accept, rough_share(target_row, token), draft);
  };
  if (!p.draft.data) {
    if (!p.normalized && surely(kCertain)) return {true, token};
    return judge_by_ratio(law_of(target_row, p.normalized), one_token(token), token, u, work);
  }
  const Row draft_row = probability_row(p.draft, row, position, work.draft);
  if (!p.normalized && surely(rough_share(draft_row, token))) {
    return {true, token};
  }
  const Law target = law_of(target_row, p.normalized), draft = law_of(draft_row, p.normalized);
  return judge_by_ratio(target, draft, token, u, work);
}

inline void accept(const AcceptParams& p, int64_t first_row, int64_t last_row) {
  Workspace& work = workspace();
  work.reserve(p.target.vocab);
  if (p.draft.data) work.reserve(p.draft.vocab);
  for (int64_t r = first_row; r < last_row; ++r) {
    int64_t position = 0;
    Verdict verdict = judge_probabilities(p, r, 0, work);
    while (verdict.accepted) verdict = judge_probabilities(p, r, ++position, work);
    p.accept_length[r] = position;
    p.next_token[r] = verdict.token;
  }
}

}  // namespace
}  // namespace spec_decode_ops
