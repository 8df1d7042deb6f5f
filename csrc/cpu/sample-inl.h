// SPDX-License-Identifier: Apache-2.0
// sample: penalty -> temperature -> top-k -> top-p -> min-p -> Gumbel-argmax draw, a row at a time.
#pragma once

#include "cpu/nucleus-inl.h"
#include "cpu/rough-inl.h"

namespace spec_decode_ops {
namespace {

inline const char* position_data(const Logits& logits, int64_t row, int64_t position) {
  const int64_t element = logits.dtype == DType::kFloat32 ? 4 : 2;
  return static_cast<const char*>(logits.data) +
         (row * logits.row_stride + position * logits.position_stride) * element;
}

// A row's history while it is being read: what came before, and the drafts before its position.
struct History {
  const int64_t* previous;
  int64_t previous_count, previous_stride;
  const int64_t* drafted;
  int64_t drafted_count, drafted_stride;
};

inline History history(const Tokens& previous, int64_t row) {
  return {previous.row(row), previous.length, previous.stride, nullptr, 0, 0};
}

inline void penalise_seen(Row& row, const History& seen, float penalty) {
  row.penalise_tokens(seen.previous, seen.previous_count, seen.previous_stride, penalty);
  row.penalise_tokens(seen.drafted, seen.drafted_count, seen.drafted_stride, penalty);
}

// The row's penalised logits with its finite maximum; -inf in an empty row.
struct Penalised {
  Row row;
  float max;

  Penalised(const Logits& logits, int64_t index, int64_t position, const Filter& filter,
            const History& history, RowSpace& space, Question* question = nullptr)
      : row(position_data(logits, index, position), logits.dtype, logits.vocab, space) {
    if (filter.penalty != 1.0f) penalise_seen(row, history, filter.penalty);
    max = question ? finite_maximum(row, filter.temperature, *question) : finite_maximum(row);
  }
};

inline float largest_logit(const Logits& logits, int64_t row) {
  Workspace& work = workspace();
  work.reserve(logits.vocab);
  return scan_maxima(Row(position_data(logits, row, 0), logits.dtype, logits.vocab, work.target));
}

// Up to here drawing from the kept list is cheaper than going over the row's noise.
constexpr int kShortSelection = 1024;

// Without top-k.
inline int draw_from_prefix(const Row& row, float x_max, const Filter& filter, const Place& place,
                            Workspace& work) {
  const float temperature = filter.temperature;
  if (!has_min_p(filter) && filter.top_p >= kAskFrom) {
    const int token = draw_from_row(row, x_max, temperature, keep_all(), place);
    if (!has_top_p(filter) || in_nucleus(row, x_max, token, temperature, filter.top_p, work)) {
      return token;
    }
  }
  const Cut cut = row_cut(row, x_max, filter, work);
  if (lanes_reaching(row, least_logit(cut.value, temperature)) > kShortSelection / 2) {
    return draw_from_row(row, x_max, temperature, cut, place);
  }
  return draw_from_selection(row.space(), select_before(row, cut, temperature), place);
}

inline int sample_row(const Penalised& logits, const Filter& filter, const Place& place,
                      Workspace& work) {
  const Row& row = logits.row;
  if (greedy(filter) || logits.max == -kInfinity) return first_maximum(row, logits.max);
  if (!has_top_k(filter, row.vocab())) {
    return draw_from_prefix(row, logits.max, filter, place, work);
  }
  const Selection selection = select(row, logits.max, filter, false, work);
  if (selection.count <= kShortSelection) return draw_from_selection(row.space(), selection, place);
  return draw_from_row(row, logits.max, filter.temperature, selection.cut, place);
}

inline void sample(const SampleParams& p, int64_t first_row, int64_t last_row) {
  Workspace& work = workspace();
  work.reserve(p.logits.vocab);
  for (int64_t r = first_row; r < last_row; ++r) {
    const Filter filter = p.filter.at(r);
    const Penalised logits(p.logits, r, 0, filter, history(p.filter.previous, r), work.target);
    p.token[r] = sample_row(logits, filter, p.noise.at(r), work);
  }
}

}  // namespace
}  // namespace spec_decode_ops
