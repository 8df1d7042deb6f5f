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

// The quotients of a tile, finite ones kept finite, where they stand before the cut.
inline void write_tile_before(const float* x, int first, float temperature, float x_floor,
                              const Cut& cut, float* out) {
  const F none = set1(-kInfinity), value = set1(cut.value);
  for (int i = 0; i < kTile; i += kLanes) {
    const F v = load(x + i);
    if (!any_ge(v, set1(x_floor))) {
      store(out + i, none);
      continue;
    }
    const F finite = smaller(larger(div(v, set1(temperature)), set1(-kMaxFloat)), set1(kMaxFloat));
    const F y = choose_gt(v, none, finite, none);
    store(out + i, choose_gt(y, value, y, none));
    for (uint32_t ties = mask_ge(y, value) & ~mask_gt(y, value); ties; ties &= ties - 1) {
      const int at = i + __builtin_ctz(ties);
      if (first + at < cut.id) out[at] = quotient(x[at], temperature);  // -0 stays -0
    }
  }
}

inline void write_before(const Row& row, float temperature, const Cut& cut, float* out) {
  const float x_floor = cut.value > -kInfinity ? least_logit(cut.value, temperature) : -kMaxFloat;
  float buffer[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    const int first = t * kTile, left = row.vocab() - first;
    if (!tile_reaches(row.space(), t, x_floor)) {
      write_nothing(out + first, left < kTile ? left : kTile);
    } else if (left < kTile) {
      float whole[kTile];
      write_tile_before(row.tile(t, buffer), first, temperature, x_floor, cut, whole);
      std::memcpy(out + first, whole, sizeof(float) * size_t(left));
    } else {
      write_tile_before(row.tile(t, buffer), first, temperature, x_floor, cut, out + first);
    }
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
  const bool one_cut = !has_top_k(filter, row.vocab()) && !has_min_p(filter);
  if (one_cut) {
    const MassScale scale = mass_scale(logits.max, filter.temperature);
    const Cut cut = has_top_p(filter) ? top_p_cut(row, scale, filter, work) : keep_all();
    return write_before(row, filter.temperature, cut, out);
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
