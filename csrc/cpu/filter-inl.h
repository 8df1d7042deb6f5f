// SPDX-License-Identifier: Apache-2.0
// filter_logits: the quotients x/T of the tokens that `sample` may draw, -inf elsewhere.
#pragma once

#include "cpu/sample-inl.h"

namespace spec_decode_ops {
namespace {

inline void filter_row(const Penalised& logits, const Filter& filter, float* out, Workspace& work) {
  const Row& row = logits.row;
  const RowSpace& space = row.space();
  if (!greedy(filter) && logits.max > -kInfinity && keeps_everything(filter, row.vocab())) {
    float buffer[kTile];
    for (int t = 0; t < row.tiles(); ++t) {
      const float* x = row.tile(t, buffer);
      const int first = t * kTile,
                count = row.vocab() - first < kTile ? row.vocab() - first : kTile;
      for (int i = 0; i < count; ++i) {
        const float y = quotient(x[i], filter.temperature);
        out[first + i] = y == y ? y : -kInfinity;
      }
    }
    return;
  }
  for (int i = 0; i < row.vocab(); ++i) out[i] = -kInfinity;
  if (logits.max == -kInfinity) return;
  if (greedy(filter)) {
    const int token = first_maximum(row, logits.max);
    out[token] = row.at(token);
    return;
  }
  const Selection selection = select(row, logits.max, filter, false, work);
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
