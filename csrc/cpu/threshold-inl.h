// SPDX-License-Identifier: Apache-2.0
// The cut of top-p over a whole row, without sorting it. A guess says between which two logits the
// running mass crosses top_p (bracket-inl.h); one exact pass takes the row's mass and lists what is
// not below that bracket, or not above it, whichever is less; what is inside is halved until few
// are left. A bracket that missed is widened.
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

// The same of a list of any length. Overwrites up to 15 values behind it.
template <class Test>
inline int pack_list(float* list, int count, float* to, Test test) {
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int i = count; i < padded; ++i) list[i] = -kInfinity;
  return pack(list, padded, to, test);
}

inline Measured measure(const Row& row, const MassScale& scale, const Bracket& bracket,
                        Workspace& work) {
  float *const list = work.value[0], *const spare = work.value[1];
  const F low = set1(bracket.low), high = set1(bracket.high);
  Measured result{0, 0, list, spare, 0, -1};
  float buffer[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    const float* x = row.tile(t, buffer);
    result.total += tile_mass(x, SoftmaxWeight{scale});
    if (bracket.few_below) {
      result.count += pack(x, kTile, list + result.count, [&](F v) { return mask_ge(high, v); });
    } else if (tile_reaches(row.space(), t, bracket.low)) {
      result.count += pack(x, kTile, list + result.count, [&](F v) { return mask_ge(v, low); });
    }
  }
  if (bracket.few_below) {
    result.above = result.total - mass_of_list(list, result.count, scale);
    result.count = pack_list(list, result.count, list, [&](F v) { return mask_ge(v, low); });
  } else {
    result.above_count =
        pack_list(list, result.count, spare, [&](F v) { return mask_gt(v, high); });
    result.above = mass_of_list(spare, result.above_count, scale);
    result.count = pack_list(list, result.count, list,
                             [&](F v) { return mask_ge(high, v) & mask_ge(v, low); });
  }
  return result;
}

// Halves what is inside the bracket around the logit at which the running mass reaches `need`,
// until few are left. Moves what lies above into `above`. Then the logits above bracket.low and up
// to bracket.high are all inside.
inline void narrow(Measured& m, Bracket& bracket, uint64_t need, const MassScale& scale) {
  constexpr int kFew = 64;  // ranking them by counting takes as long as another step
  while (m.count > kFew) {
    const float middle = 0.5f * bracket.low + 0.5f * bracket.high;
    if (!(middle > bracket.low && middle < bracket.high)) return;
    const F pivot = set1(middle);
    const int upper =
        pack_list(m.inside, m.count, m.outside, [&](F v) { return mask_gt(v, pivot); });
    const uint64_t mass = mass_of_list(m.outside, upper, scale);
    if (m.above + mass >= need) {
      bracket.low = middle;
      std::swap(m.inside, m.outside);
      m.count = upper;
    } else {
      m.above += mass;
      bracket.high = middle;
      m.count = pack_list(m.inside, m.count, m.inside,
                          [&](F v) { return mask_ge(pivot, v) & mask_gt(v, set1(-kInfinity)); });
    }
  }
}

// The logits whose quotients equal that of x, from `first` up to but not with `beyond`.
struct TieClass {
  float y, first, beyond;
  TieClass(float x, float max, float temperature) : y(quotient(x, temperature)) {
    const bool top = y >= quotient(max, temperature);
    first = least_logit(y, temperature);
    beyond = top ? kInfinity : least_logit(key_value(order_key(y) + 1), temperature);
  }
  bool holds(float x) const { return x >= first && x < beyond; }
};

// Calls visit(token, logit) for the tokens of a class in tile `from` and those after it, by
// ascending id.
template <class Visit>
inline void for_each_tie(const Row& row, int from, const TieClass& ties, Visit visit) {
  const F first = set1(ties.first), beyond = set1(ties.beyond);
  float buffer[kTile];
  for (int t = from; t < row.tiles(); ++t) {
    if (!tile_reaches(row.space(), t, ties.first)) continue;
    const float* x = row.tile(t, buffer);
    for (int i = 0; i < kTile; i += kLanes) {
      const F v = load(x + i);
      for (uint32_t hits = mask_ge(v, first) & ~mask_ge(v, beyond); hits; hits &= hits - 1) {
        const int lane = i + __builtin_ctz(hits);
        visit(t * kTile + lane, x[lane]);
      }
    }
  }
}

// What top-p keeps of a whole row, and its mass.
struct Nucleus {
  Cut cut;
  uint64_t mass;
};

// That whose cut goes through a class which holds the logit `x`: of its tokens, by ascending id,
// those are kept before which the running mass is under `need`. `above` is the mass of logits
// above x.
inline Nucleus cut_among_ties(const Row& row, float x, uint64_t above, uint64_t need,
                              const MassScale& scale, const TieClass& ties) {
  int32_t* id = row.space().id;
  int count = 0;
  for_each_tie(row, 0, ties, [&](int token, float tie) {
    id[count++] = token;
    if (tie > x) above -= mass(tie, scale);
  });
  int last = 0;
  while ((above += mass(row.at(id[last]), scale)) < need && last < count - 1) ++last;
  return {{ties.y, id[last] + 1}, above};
}

// Whether `x` is alone in its class, as far as the logits inside the bracket tell.
inline bool surely_alone(const Measured& m, const Bracket& bracket, const TieClass& ties,
                         float max) {
  const bool all_inside =
      ties.first > bracket.low && (ties.beyond <= bracket.high || bracket.high >= max);
  int count = 0;
  for (int i = 0; i < m.count; ++i) count += ties.holds(m.inside[i]);
  return all_inside && count == 1;
}

// requires T > 0, top_p on, and the row's finite maximum in `scale`, after scan_maxima
inline Nucleus find_nucleus(const Row& row, const MassScale& scale, const Filter& filter,
                            Workspace& work) {
  const Bracket all = all_with_mass(scale);
  const float top_p = filter.top_p > 0.0 ? float(filter.top_p) : 0.0f;
  Bracket bracket = guess_bracket(row, scale, top_p, work);
  Measured m;
  uint64_t need;
  for (;;) {
    m = measure(row, scale, bracket, work);
    need = top_p_quota(filter.top_p, m.total);
    if (m.above >= need && m.above_count >= 0) {
      std::swap(m.inside, m.outside);
      m.count = m.above_count;
      m.above = 0;
      bracket = {bracket.high, all.high, false};
      break;
    } else if (m.above >= need) {
      bracket = {bracket.high, all.high, false};
    } else if (m.above + mass_of_list(m.inside, m.count, scale) < need) {
      bracket = below(bracket, all);
    } else {
      break;
    }
  }
  narrow(m, bracket, need, scale);
  uint64_t* each = row.space().mass;
  for (int i = m.count; i % kLanes; ++i) m.inside[i] = -kInfinity;
  for (int i = 0; i < m.count; i += kLanes) masses(m.inside + i, SoftmaxWeight{scale}, each + i);
  const auto mass_of = [&](int i) { return each[i]; };
  const int last = find_crossing(m.inside, m.count, need - m.above, mass_of, work.key, work.index);
  const float x = m.inside[last];
  const TieClass ties(x, scale.max, filter.temperature);
  for (int i = 0; i < m.count; ++i) {
    if (m.inside[i] > x) m.above += each[i];
  }
  if (surely_alone(m, bracket, ties, scale.max)) {
    return {{ties.y, INT32_MAX}, m.above + each[last]};
  }
  return cut_among_ties(row, x, m.above, need, scale, ties);
}

inline Cut top_p_cut(const Row& row, const MassScale& scale, const Filter& filter,
                     Workspace& work) {
  return find_nucleus(row, scale, filter, work).cut;
}

}  // namespace
}  // namespace spec_decode_ops
