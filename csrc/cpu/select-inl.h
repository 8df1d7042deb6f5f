// SPDX-License-Identifier: Apache-2.0
// Which tokens of a row the filters keep (common/prefix_filter.h), by selection and not by sorting.
//
// A floor on the logits leaves few candidates: with top-k, the k-th largest of the row's lane
// maxima is a lower bound of its k-th largest logit; with min-p alone, tokens far under the bound
// cannot stay; with top-p, tokens without mass cannot. What decides then runs over the candidates.
#pragma once

#include "common/floor.h"
#include "common/prefix_filter.h"
#include "cpu/reduce-inl.h"

namespace spec_decode_ops {
namespace {

// The kept tokens, by ascending id; id, y and mass are in the row's space. Equal to the tokens of
// the row that `kept` finds before `cut`.
struct Selection {
  int count;
  Cut cut;
};

struct Crossing {
  uint32_t key;
  int32_t entry;
};

// Going down the order (larger key first, then the earlier entry), the entry at which the running
// sum of weights reaches `need`. requires 1 <= need <= the whole sum
template <class WeightOf>
inline Crossing find_crossing(const uint32_t* key, int count, uint64_t need, WeightOf weight_of,
                              int32_t* entry) {
  constexpr int kDigitBits = 11;
  for (int i = 0; i < count; ++i) entry[i] = i;
  for (;;) {
    uint32_t least = key[entry[0]], most = least;
    for (int i = 1; i < count; ++i) {
      const uint32_t k = key[entry[i]];
      least = k < least ? k : least;
      most = k > most ? k : most;
    }
    if (least == most) break;
    const int digits = 32 - __builtin_clz(least ^ most);
    const int shift = digits > kDigitBits ? digits - kDigitBits : 0;
    const auto digit = [&](int i) { return key[i] >> shift & ((1u << kDigitBits) - 1); };
    uint64_t sums[1 << kDigitBits] = {};
    for (int i = 0; i < count; ++i) sums[digit(entry[i])] += weight_of(entry[i]);
    uint32_t crossing = (1u << kDigitBits) - 1;
    while (sums[crossing] < need) need -= sums[crossing--];
    int left = 0;
    for (int i = 0; i < count; ++i) {
      if (digit(entry[i]) == crossing) entry[left++] = entry[i];
    }
    count = left;
  }
  int i = 0;
  while (weight_of(entry[i]) < need) need -= weight_of(entry[i++]);
  return {key[entry[0]], entry[i]};
}

// A lower bound of the row's k-th largest logit; -inf if the lane maxima give none.
inline float kth_bound(const Row& row, int64_t k, Workspace& work) {
  const int lanes = row.tiles() * kLanes;
  if (lanes < k) return -kInfinity;
  for (int i = 0; i < lanes; ++i) work.key[i] = order_key(row.space().lane_max[i]);
  const auto one = [](int) { return uint64_t(1); };
  return key_value(find_crossing(work.key, lanes, uint64_t(k), one, work.index).key);
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

inline void fill_keys(const RowSpace& space, int count, uint32_t* key) {
  for (int i = 0; i < count; ++i) key[i] = order_key(space.y[i]);
}

inline void keep_top_k(Selection& selection, int64_t k, RowSpace& space, Workspace& work) {
  if (selection.count <= k) return;
  fill_keys(space, selection.count, work.key);
  const auto one = [](int) { return uint64_t(1); };
  const Crossing kth = find_crossing(work.key, selection.count, uint64_t(k), one, work.index);
  apply(selection, {key_value(kth.key), INT32_MAX}, space, false);
}

inline void keep_top_p(Selection& selection, double top_p, RowSpace& space, Workspace& work) {
  uint64_t total = 0;
  for (int i = 0; i < selection.count; ++i) total += space.mass[i];
  fill_keys(space, selection.count, work.key);
  const auto mass_of = [&](int i) { return space.mass[i]; };
  const Crossing last =
      find_crossing(work.key, selection.count, top_p_quota(top_p, total), mass_of, work.index);
  apply(selection, {key_value(last.key), space.id[last.entry] + 1}, space, true);
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

// requires T > 0, and x_max the row's finite maximum after scan_maxima. Masses are filled when
// `with_mass` says so or a filter needs them.
inline Selection select(const Row& row, float x_max, const Filter& filter, bool with_mass,
                        Workspace& work) {
  RowSpace& space = row.space();
  const bool top_k = has_top_k(filter, row.vocab());
  const bool top_p = has_top_p(filter), min_p = has_min_p(filter);
  const float largest = quotient(x_max, filter.temperature);
  float floor = -kMaxFloat;
  if (top_k) {
    const float bound = kth_bound(row, filter.top_k, work);
    if (bound > -kInfinity) floor = quotient(bound, filter.temperature);
  } else if (top_p || min_p) {
    const float least = !top_p && filter.min_p > 0x1p-44 ? float(filter.min_p) : 0x1p-44f;
    floor = mass_floor(largest, least < 1.0f ? least : 1.0f);
  }
  const float x_floor = least_logit(floor, filter.temperature);
  Selection selection{collect(row, x_floor, filter.temperature), {floor, INT32_MAX}};
  if (top_k) keep_top_k(selection, filter.top_k, space, work);
  if (top_p || min_p || with_mass) {
    fill_masses(row, selection, mass_scale(x_max, filter.temperature));
  }
  if (top_p) keep_top_p(selection, filter.top_p, space, work);
  if (min_p) keep_min_p(selection, filter.min_p, largest, space);
  return selection;
}

}  // namespace
}  // namespace spec_decode_ops
