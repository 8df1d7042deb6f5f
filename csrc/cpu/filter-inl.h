// SPDX-License-Identifier: Apache-2.0
// filter_logits: the quotients x/T of the tokens that `sample` may draw, -inf elsewhere.
#pragma once

#include "cpu/sample-inl.h"

namespace spec_decode_ops {
namespace {

inline void write_nothing(float* out, int count) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, set1(-kInfinity));
  for (; i < count; ++i) out[i] = -kInfinity;
}

// The quotients of a tile's logits from `floor` up, finite ones kept finite.
template <class Logit>
inline void write_from(const Logit* x, float floor, float temperature, float* out) {
  const F none = set1(-kInfinity), least = set1(floor);
  for (int i = 0; i < kTile; i += kLanes) {
    const F v = larger(load(x + i), none);  // NaN is not kept
    if (!any_ge(v, least)) {
      store(out + i, none);
      continue;
    }
    const F y = smaller(larger(div(v, set1(temperature)), set1(-kMaxFloat)), set1(kMaxFloat));
    store(out + i, choose_gt(least, v, none, y));
  }
}

// The tokens before the cut. `ties` are those at it.
inline void write_before(const Row& row, float temperature, const TieClass& ties, int32_t cut_id,
                         float* out) {
  float whole[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    const int first = t * kTile, left = row.vocab() - first;
    if (!tile_reaches(row.space(), t, ties.first)) {
      write_nothing(out + first, left < kTile ? left : kTile);
      continue;
    }
    float* to = left < kTile ? whole : out + first;
    const float floor = first + kTile <= cut_id ? ties.first : ties.beyond;
    row.with_tile(t, [=](const auto* x) { write_from(x, floor, temperature, to); });
    for (int i = 0; first + kTile > cut_id && first + i < cut_id; ++i) {
      const float x = row.at(first + i);
      if (ties.holds(x)) to[i] = quotient(x, temperature);
    }
    if (left < kTile) std::memcpy(out + first, whole, sizeof(float) * size_t(left));
  }
}

inline void filter_row(const Penalised& logits, const Filter& filter, float* out, Workspace& work) {
  const Row& row = logits.row;
  const RowSpace& space = row.space();
  if (logits.max == -kInfinity) return write_nothing(out, row.vocab());
  if (greedy(filter)) {
    write_nothing(out, row.vocab());
    const int token = first_maximum(row, logits.max);
    out[token] = row.at(token);
    return;
  }
  const float temperature = filter.temperature;
  if (keeps_everything(filter, row.vocab())) {
    return write_before(row, temperature, {-kInfinity, -kMaxFloat, -kMaxFloat}, 0, out);
  }
  if (!has_top_k(filter, row.vocab())) {
    const Cut cut = row_cut(row, logits.max, filter, work);
    const float x = least_logit(cut.value, temperature);
    return write_before(row, temperature, ties_of(x, logits.max, temperature), cut.id, out);
  }
  const Selection selection = select(row, logits.max, filter, false, work);
  write_nothing(out, row.vocab());
  for (int i = 0; i < selection.count; ++i) out[space.id[i]] = space.y[i];
}

inline void filter_logits(const FilterParams& p, int64_t first_row, int64_t last_row) {
  Workspace& work = workspace();
  work.reserve(p.logits.vocab);
  for (int64_t r = first_row; r < last_row; ++r) {
    const Filter filter = p.filter.at(r);
    const Penalised logits(p.logits, r, 0, filter, history(p.filter.previous, r), work.target);
    filter_row(logits, filter, p.out + r * p.logits.vocab, work);
  }
}

}  // namespace
}  // namespace spec_decode_ops
