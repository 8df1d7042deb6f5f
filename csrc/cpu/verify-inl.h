// SPDX-License-Identifier: Apache-2.0
// verify: speculative sampling from logits (common/accept.h), block verification (common/block.h)
// and the coupled rule. But for the block rule, rows are read in order and no further than the
// first rejection.
//
// Coupled (Daliri et al. 2024): position i emits what `sample` would draw there from the target,
// and the draft goes on while it agrees. The output is plain sampling, token for token.
#pragma once

#include "cpu/block-inl.h"
#include "cpu/rough-inl.h"
#include "cpu/sample-inl.h"

namespace spec_decode_ops {
namespace {

// One row of the batch while it is verified.
struct Round {
  const VerifyParams& p;
  int64_t row;
  Filter filter;
  Place place;
  Workspace& work;

  Penalised logits(const Logits& from, int64_t position, RowSpace& space,
                   Question* question = nullptr) const {
    History seen = history(p.filter.previous, row);
    seen.drafted = p.drafted.row(row);
    seen.drafted_count = position;
    seen.drafted_stride = p.drafted.stride;
    const bool plain = keeps_everything(filter, from.vocab);
    return Penalised(from, row, position, filter, seen, space, plain ? question : nullptr);
  }
  Fractions fractions(int64_t position) const {
    if (p.words) {
      const int64_t* words = p.words + row * (p.drafted.length + 1);
      const uint64_t draw = uint64_t(words[p.drafted.length]);
      return {uint64_t(words[position]), draw, draw};
    }
    const auto fraction = [&](Purpose purpose) {
      return draw_fraction(place, purpose, uint32_t(position));
    };
    return {fraction(Purpose::kAccept), fraction(Purpose::kResidual), fraction(Purpose::kBonus)};
  }
};

// requires T > 0; `logits` must outlive the law. The total is 0 if it is not known.
inline Law law_of(const Penalised& logits, const Filter& filter, uint64_t total, Workspace& work) {
  Law law{};
  law.row = &logits.row;
  if (logits.max == -kInfinity) {
    law.kind = Law::kSelection;  // of no token
  } else if (keeps_everything(filter, logits.row.vocab())) {
    law.kind = Law::kSoftmax;
    law.scale = mass_scale(logits.max, filter.temperature);
  } else {
    law.kind = Law::kSelection;
    law.selection = select(logits.row, logits.max, filter, true, work);
  }
  if (total && law.kind == Law::kSoftmax) {
    law.total = total;
  } else {
    take_total(law);
  }
  return law;
}

inline Verdict judge_row(const Round& round, int64_t position) {
  const VerifyParams& p = round.p;
  const int64_t drafted = position < p.drafted.length ? p.drafted.at(round.row, position) : -1;
  if (greedy(round.filter) || p.rule == Rule::kCoupled) {
    Place place = round.place;
    place.offset = (place.offset + uint64_t(position)) % kOffsetLimit;
    const Penalised target = round.logits(p.target, position, round.work.target);
    return judge_by_equality(sample_row(target, round.filter, place, round.work), drafted);
  }
  const auto law = [&](const Penalised& logits) {
    return law_of(logits, round.filter, 0, round.work);
  };
  const Fractions u = round.fractions(position);
  if (!in_vocabulary(drafted, p.target, p.draft)) {
    const Penalised target = round.logits(p.target, position, round.work.target);
    return end_of_draft(law(target), u);
  }
  const int token = int(drafted);
  const double fraction = double(u.accept) * 0x1p-64;
  if (!p.draft.data) {
    Question asked{token, fraction};
    const Penalised target = round.logits(p.target, position, round.work.target, &asked);
    if (surely_accepted(u.accept, asked.share, kCertain)) return {true, token};
    return judge_by_ratio(law(target), one_token(token), token, u, round.work);
  }
  Question of_draft{token};
  const Penalised draft = round.logits(p.draft, position, round.work.draft, &of_draft);
  const Share& q = of_draft.share;
  Question of_target{token, q.row > 0.0 ? fraction * q.token / q.row : 0x1p200};
  const Penalised target = round.logits(p.target, position, round.work.target, &of_target);
  if (surely_accepted(u.accept, of_target.share, q)) return {true, token};
  const Law target_law = law(target), draft_law = law(draft);
  return judge_by_ratio(target_law, draft_law, token, u, round.work);
}

// The rows of a round for the block rule.
struct RoundRows {
  const Round& round;

  int drafted(int64_t i) const {
    const int64_t token = round.p.drafted.at(round.row, i);
    return in_vocabulary(token, round.p.target, round.p.draft) ? int(token) : -1;
  }
  Fractions fractions(int64_t i) const { return round.fractions(i); }
  template <class Use>
  void with_target(int64_t i, uint64_t total, Use use) const {
    const Penalised logits = round.logits(round.p.target, i, round.work.target);
    use(law_of(logits, round.filter, total, round.work));
  }
  template <class Use>
  void with_draft(int64_t i, uint64_t total, Use use) const {
    const Penalised logits = round.logits(round.p.draft, i, round.work.draft);
    use(law_of(logits, round.filter, total, round.work));
  }
};

inline int64_t verify_block(const Round& round, int64_t* out) {
  const VerifyParams& p = round.p;
  const BlockVerdict verdict = judge_block(RoundRows{round}, p.drafted.length, round.work);
  for (int64_t i = 0; i < verdict.accepted; ++i) out[i] = p.drafted.at(round.row, i);
  out[verdict.accepted] = verdict.token;
  return verdict.accepted;
}

inline int64_t verify_in_order(const Round& round, int64_t* out) {
  for (int64_t position = 0;; ++position) {
    const Verdict verdict = judge_row(round, position);
    out[position] = verdict.token;
    if (!verdict.accepted) return position;
  }
}

inline void verify(const VerifyParams& p, int64_t first_row, int64_t last_row) {
  Workspace& work = workspace();
  work.reserve(p.target.vocab);
  if (p.draft.data) work.reserve(p.draft.vocab);
  const int64_t drafts = p.drafted.length;
  // A deterministic draft has the same law under both rules, and the token rule reads fewer rows.
  const bool block = p.rule == Rule::kBlock && p.draft.data;
  if (block) work.reserve_drafted(drafts);
  for (int64_t r = first_row; r < last_row; ++r) {
    const Round round{p, r, p.filter.at(r), p.noise.at(r), work};
    int64_t* out = p.out + r * (drafts + 1);
    const int64_t accepted =
        block && !greedy(round.filter) ? verify_block(round, out) : verify_in_order(round, out);
    p.accept_length[r] = accepted;
    for (int64_t i = accepted + 1; i <= drafts; ++i) out[i] = -1;
  }
}

}  // namespace
}  // namespace spec_decode_ops
