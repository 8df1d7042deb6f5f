// SPDX-License-Identifier: Apache-2.0
// The cut of top-p over a whole row, without sorting it. A guess says between which two logits the
// running mass crosses top_p (bracket-inl.h); one exact pass takes the row's mass and lists what is
// not below that bracket, or not above it, whichever is less; what is inside is halved until few
// are left. A bracket that missed is widened. Lists are of whole tie classes, so that only the one
// that the cut goes through is looked up in the row.
#pragma once

#include <utility>

#include "cpu/bracket-inl.h"

namespace spec_decode_ops {
namespace {

// The row's mass, the mass above the bracket, and the logits inside it, packed; and if few are
// above, those, packed too.
struct Measured {
  uint64_t total, above;
  float *inside, *outside;
  int count, above_count;
};

// Moves those of a list that are at least `pivot` to `upper`; returns how many they were. May
// overwrite up to 15 values behind the lists.
inline int split(float* list, int& count, float pivot, float* upper) {
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int i = count; i < padded; ++i) list[i] = -kInfinity;
  const int moved = pack(list, padded, upper, [&](F v) { return mask_ge(v, set1(pivot)); });
  pack(list, padded, list, [&](F v) { return mask_gt(set1(pivot), v); });
  count -= moved;
  return moved;
}

inline Measured measure(const Row& row, const MassScale& scale, const Bracket& bracket,
                        Workspace& work) {
  float *const list = work.value[0], *const spare = work.value[1];
  const F low = set1(bracket.low), high = set1(bracket.high);
  uint64_t total = 0;
  int count = 0;
  float buffer[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    const float* x = row.tile(t, buffer);
    total += tile_mass(x, SoftmaxWeight{scale});
    if (bracket.few_below) {
      count += pack(x, kTile, list + count, [&](F v) { return mask_gt(high, v); });
    } else if (tile_reaches(row.space(), t, bracket.low)) {
      count += pack(x, kTile, list + count, [&](F v) { return mask_ge(v, low); });
    }
  }
  if (bracket.few_below) {
    const uint64_t above = total - mass_of_list(list, count, scale);
    const int inside = split(list, count, bracket.low, spare);
    return {total, above, spare, list, inside, -1};
  }
  const int outside = split(list, count, bracket.high, spare);
  return {total, mass_of_list(spare, outside, scale), list, spare, count, outside};
}

// Halves what is inside the bracket around the logit at which the running mass reaches `need`,
// until few are left or one tie class. Adds the mass of those that lie above to m.above.
inline void narrow(Measured& m, uint64_t need, const MassScale& scale, float temperature) {
  constexpr int kFew = 64;  // ranking them by counting takes as long as another step
  while (m.count > kFew) {
    F most = set1(-kInfinity), least = most;  // the least negated
    for (int i = 0; i + kLanes <= m.count; i += kLanes) {
      most = larger(load(m.inside + i), most);
      least = larger(sub(set1(0.0f), load(m.inside + i)), least);
    }
    const float high = max_of(most), low = -max_of(least);
    float pivot = class_of(0.5f * low + 0.5f * high, temperature);
    if (pivot <= low) pivot = class_of(high, temperature);
    if (pivot <= low) return;
    const int upper = split(m.inside, m.count, pivot, m.outside);
    const uint64_t mass = mass_of_list(m.outside, upper, scale);
    if (m.above + mass >= need) {
      std::swap(m.inside, m.outside);
      m.count = upper;
    } else {
      m.above += mass;
    }
  }
}

// What top-p keeps of a whole row, and its mass.
struct Nucleus {
  Cut cut;
  uint64_t mass;
};

// requires T > 0, top_p on, and the row's finite maximum in `scale`, after scan_maxima
inline Nucleus find_nucleus(const Row& row, const MassScale& scale, const Filter& filter,
                            Workspace& work) {
  Bracket bracket = guess_bracket(row, scale, filter, work);
  Measured m;
  uint64_t need;
  for (;;) {
    m = measure(row, scale, bracket, work);
    need = top_p_quota(filter.top_p, m.total);
    if (m.above >= need && m.above_count >= 0) {
      std::swap(m.inside, m.outside);
      m.count = m.above_count;
      m.above = 0;
      break;
    } else if (m.above >= need) {
      bracket = {bracket.high, kInfinity, false};
    } else if (m.above + mass_of_list(m.inside, m.count, scale) < need) {
      bracket = below(bracket, scale, filter.temperature);
    } else {
      break;
    }
  }
  narrow(m, need, scale, filter.temperature);
  uint64_t* each = row.space().mass;
  for (int i = m.count; i % kLanes; ++i) m.inside[i] = -kInfinity;
  for (int i = 0; i < m.count; i += kLanes) masses(m.inside + i, SoftmaxWeight{scale}, each + i);
  const auto mass_of = [&](int i) { return each[i]; };
  const int last = find_crossing(m.inside, m.count, need - m.above, mass_of, work.key, work.index);
  const TieClass ties = ties_of(m.inside[last], scale.max, filter.temperature);
  uint64_t kept = m.above;
  int equal = 0;
  for (int i = 0; i < m.count; ++i) {
    if (m.inside[i] >= ties.beyond) kept += each[i];
    equal += ties.holds(m.inside[i]);
  }
  if (equal == 1) return {{ties.y, INT32_MAX}, kept + each[last]};
  Cut cut{ties.y, 0};
  for_each_between(row, 0, ties.first, ties.beyond, [&](int token, float x) {
    cut.id = token + 1;
    return (kept += mass(x, scale)) >= need;
  });
  return {cut, kept};
}

}  // namespace
}  // namespace spec_decode_ops
