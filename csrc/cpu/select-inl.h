// SPDX-License-Identifier: Apache-2.0
// Which tokens of a row the filters keep (common/prefix_filter.h), by selection and not by sorting.
//
// A floor on the logits leaves few candidates: with top-k, the k-th largest of the row's lane
// maxima is a lower bound of its k-th largest logit, and what decides then runs over candidates;
// without, the cut is known before (row_cut-inl.h).
#pragma once

#include "cpu/row_cut-inl.h"

namespace spec_decode_ops {
namespace {

// The kept tokens, by ascending id; id, y and mass are in the row's space. Equal to the tokens of
// the row that `kept` finds before `cut`.
struct Selection {
  int count;
  Cut cut;
};

// A lower bound of the row's k-th largest logit; -inf if the lane maxima give none. Tiles are
// merged, so that about 8 lane maxima compete for each of the k places. Of a short row, which has
// too few of them, all tokens do.
inline float kth_bound(const Row& row, int64_t k, float* merged) {
  const float* lane_max = row.space().lane_max;
  if (row.tiles() <= 8 && row.tiles() * kLanes < 2 * k) {
    for (int t = 0; t < row.tiles(); ++t) {
      float buffer[kTile];
      std::memcpy(merged + t * kTile, row.tile(t, buffer), sizeof buffer);
    }
    return kth_largest_bound(merged, row.tiles() * kTile, k);
  }
  int groups = 8;
  while (groups < row.tiles() && groups * 8 < k) groups *= 2;
  if (groups >= row.tiles()) return kth_largest_bound(lane_max, row.tiles() * kLanes, k);
  for (int t = 0; t < row.tiles(); ++t) {
    const F m = load(lane_max + t * kLanes);
    float* group = merged + (t & (groups - 1)) * kLanes;
    store(group, t < groups ? m : larger(m, load(group)));
  }
  return kth_largest_bound(merged, groups * kLanes, k);
}

// Tokens from `floor` up, with their quotients; returns how many.
inline int collect(const Row& row, float floor, float temperature) {
  const RowSpace& space = row.space();
  int count = 0;
  for_each_from(row, floor, [&](int token, float x) {
    space.id[count] = token;
    space.y[count++] = quotient(x, temperature);
  });
  return count;
}

inline void fill_masses(const Row& row, const Selection& selection, const MassScale& scale) {
  RowSpace& space = row.space();
  float x[kLanes];
  for (int i = 0; i < selection.count; i += kLanes) {
    const int n = selection.count - i < kLanes ? selection.count - i : kLanes;
    for (int j = 0; j < n; ++j) x[j] = row.at(space.id[i + j]);
    for (int j = n; j < kLanes; ++j) x[j] = -kInfinity;
    masses(x, SoftmaxWeight{scale}, space.mass + i);
  }
}

// Drops what the selection's cut, grown stricter, drops.
inline void apply(Selection& selection, const Cut& cut, RowSpace& space, bool with_mass) {
  selection.cut = stricter(selection.cut, cut);
  int left = 0;
  for (int i = 0; i < selection.count; ++i) {
    if (!kept(space.y[i], space.id[i], selection.cut)) continue;
    space.id[left] = space.id[i];
    space.y[left] = space.y[i];
    if (with_mass) space.mass[left] = space.mass[i];
    ++left;
  }
  selection.count = left;
}

// The tokens before a cut.
inline Selection select_before(const Row& row, const Cut& cut, float temperature) {
  Selection selection{collect(row, least_logit(cut.value, temperature), temperature), cut};
  apply(selection, cut, row.space(), false);
  return selection;
}

inline void keep_top_k(Selection& selection, int64_t k, RowSpace& space, Workspace& work) {
  if (selection.count <= k) return;
  const auto one = [](int) { return uint64_t(1); };
  const int kth = find_crossing(space.y, selection.count, uint64_t(k), one, work.key, work.index);
  apply(selection, {space.y[kth], INT32_MAX}, space, false);
}

// Among the tokens that are selected.
inline void keep_top_p(Selection& selection, double top_p, RowSpace& space, Workspace& work) {
  uint64_t total = 0;
  for (int i = 0; i < selection.count; ++i) total += space.mass[i];
  const auto mass_of = [&](int i) { return space.mass[i]; };
  const int last = find_crossing(space.y, selection.count, top_p_quota(top_p, total), mass_of,
                                 work.key, work.index);
  apply(selection, {space.y[last], space.id[last] + 1}, space, true);
}

inline void keep_min_p(Selection& selection, double min_p, float largest, RowSpace& space) {
  const uint64_t bound = min_p_bound(min_p);
  float failing = -kInfinity;
  for (int i = 0; i < selection.count; ++i) {
    const float y = space.y[i];
    if (space.mass[i] < bound && y < largest && y > failing) failing = y;
  }
  apply(selection, {failing, 0}, space, true);
}

// requires T > 0, a filter that is on, and x_max the row's finite maximum after scan_maxima. Masses
// are filled when `with_mass` says so or a filter needs them.
inline Selection select(const Row& row, float x_max, const Filter& filter, bool with_mass,
                        Workspace& work) {
  RowSpace& space = row.space();
  const MassScale scale = mass_scale(x_max, filter.temperature);
  if (!has_top_k(filter, row.vocab())) {
    Selection selection = select_before(row, row_cut(row, x_max, filter, work), filter.temperature);
    if (with_mass) fill_masses(row, selection, scale);
    return selection;
  }
  const float bound = kth_bound(row, filter.top_k, work.value[0]);
  const float floor = bound > -kInfinity ? quotient(bound, filter.temperature) : -kMaxFloat;
  const bool top_p = has_top_p(filter), min_p = has_min_p(filter);
  Selection selection{collect(row, least_logit(floor, filter.temperature), filter.temperature),
                      {floor, INT32_MAX}};
  keep_top_k(selection, filter.top_k, space, work);
  if (top_p || min_p || with_mass) fill_masses(row, selection, scale);
  if (top_p) keep_top_p(selection, filter.top_p, space, work);
  if (min_p) keep_min_p(selection, filter.min_p, quotient(x_max, filter.temperature), space);
  return selection;
}

}  // namespace
}  // namespace spec_decode_ops
