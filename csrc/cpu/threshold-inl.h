// SPDX-License-Identifier: Apache-2.0
// The cut of top-p over a whole row, without sorting it. A sample of the row says between which two
// logits the running mass crosses top_p, give or take a few per cent; one exact pass takes the
// row's mass and lists what is not below that bracket, or not above it, whichever is less; what is
// inside is halved until few are left. A bracket that missed is widened: the sample decides time,
// never the cut.
#pragma once

#include <utility>

#include "common/prefix_filter.h"
#include "cpu/crossing-inl.h"
#include "cpu/mass-inl.h"

namespace spec_decode_ops {
namespace {

// Logits from `low` to `high`; and whether fewer lie below them than above, as far as is known.
struct Bracket {
  float low, high;
  bool few_below;
};

// Between these lies every logit that has mass: below are weights under 2^-44.
inline Bracket all_with_mass(const MassScale& scale) {
  const float low = scale.max - 45.0f / scale.rate - magnitude(scale.max) * 1e-6f;
  return {low > -kMaxFloat ? low : -kMaxFloat, scale.max, false};
}

// Some of a row's logits, each with the weight of those it stands for.
struct Sample {
  float* value;
  float* weight;
  int count;  // a multiple of kLanes
  int exact;  // so many stand for themselves alone; those after them for as many others each

  float weight_from(float floor) const {
    F sum = set1(0.0f);
    for (int i = 0; i < count; i += kLanes) {
      sum = add(sum, choose_gt(set1(floor), load(value + i), set1(0.0f), load(weight + i)));
    }
    return rough_sum_of(sum);
  }

  // Whether more of those that stand for others are above x than are not.
  bool mostly_above(float x) const {
    int above = 0, all = 0;
    for (int i = exact; i < count; i += kLanes) {
      above += __builtin_popcount(mask_gt(load(value + i), set1(x)));
      all += __builtin_popcount(mask_gt(load(value + i), set1(-kInfinity)));
    }
    return 2 * above > all;
  }

  // A logit about from which on stands a share of the weight. Halves the bracket.
  float crossing(float share, Bracket within) const {
    const float goal = share * weight_from(within.low);
    for (int step = 0; step < 11; ++step) {
      const float middle = 0.5f * within.low + 0.5f * within.high;
      if (weight_from(middle) < goal) {
        within.high = middle;
      } else {
        within.low = middle;
      }
    }
    return within.low;
  }
};

constexpr int kSampledVectors = 128;

// Large logits are all there, as lane maxima; those below are every so many vectors'.
inline Sample sample_of(const Row& row, const MassScale& scale, Workspace& work) {
  const int lanes = row.tiles() * kLanes, vectors = row.tiles() * (kTile / kLanes);
  const float* lane_max = row.space().lane_max;
  const float large = kth_largest_bound(lane_max, lanes, lanes / 12);
  const F from = set1(large);
  Sample sample{work.value[0], work.value[1], 0, 0};
  const auto pad_and_weigh = [&](int first, float stands_for) {
    for (; sample.count % kLanes; ++sample.count) sample.value[sample.count] = -kInfinity;
    for (int i = first; i < sample.count; i += kLanes) {
      const F e = weight(load(sample.value + i), scale);
      store(sample.weight + i, mul(e, set1(stands_for)));
    }
  };
  for (int i = 0; i < lanes; i += kLanes) {
    const F m = load(lane_max + i);
    sample.count += store_packed(sample.value + sample.count, m, mask_ge(m, from));
  }
  pad_and_weigh(0, 1.0f);
  sample.exact = sample.count;
  for (int i = 0; i < kSampledVectors; ++i) {
    const int vector = int(int64_t(vectors) * (2 * i + 1) / (2 * kSampledVectors));
    const F x = row.sixteen(vector * kLanes);
    sample.count += store_packed(sample.value + sample.count, x, mask_gt(from, x));
  }
  pad_and_weigh(sample.exact, float(vectors) / kSampledVectors);
  return sample;
}

// requires 0 < top_p < 1
inline Bracket guess_bracket(const Row& row, const MassScale& scale, float top_p, Workspace& work) {
  const Bracket all = all_with_mass(scale);
  if (row.tiles() * (kTile / kLanes) < 8 * kSampledVectors) return all;
  const Sample sample = sample_of(row, scale, work);
  const float left = 0.6f * (1.0f - top_p), margin = left < 0.03f ? left : 0.03f;
  const float low = sample.crossing(top_p + margin, all);
  const float high = sample.crossing(top_p - margin, all);
  return {low, high, sample.mostly_above(high)};
}

// The row's mass, the mass above the bracket, and the logits inside it, packed; and if few are
// above, those, packed too.
struct Measured {
  uint64_t total, above;
  float *inside, *outside;
  int count, above_count;
};

// Keeps those of a list from which `test` has a bit; returns how many. Pads the list to whole
// vectors first.
template <class Test>
inline int pack_list(float* list, int count, float* to, Test test) {
  for (int i = count; i % kLanes; ++i) list[i] = -kInfinity;
  int kept = 0;
  for (int i = 0; i < count; i += kLanes) {
    const F v = load(list + i);
    kept += store_packed(to + kept, v, test(v));
  }
  return kept;
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
      result.count += pack_up_to(x, high, list + result.count);
    } else if (tile_reaches(row.space(), t, bracket.low)) {
      result.count += pack_from(x, low, list + result.count);
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

// The cut through a class that holds the logit `x`: of its tokens, by ascending id, those are kept
// before which the running mass is under `need`. `above` is the mass of logits above x.
inline Cut cut_among_ties(const Row& row, float x, uint64_t above, uint64_t need,
                          const MassScale& scale, const TieClass& ties) {
  int32_t* id = row.space().id;
  int count = 0;
  for_each_tie(row, 0, ties, [&](int token, float tie) {
    id[count++] = token;
    if (tie > x) above -= mass(tie, scale);
  });
  int last = 0;
  while ((above += mass(row.at(id[last]), scale)) < need && last < count - 1) ++last;
  return {ties.y, id[last] + 1};
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

// What to try where the running mass crosses below a bracket: twice its width further down.
inline Bracket below(const Bracket& bracket, const Bracket& all) {
  const float low = bracket.low - 2.0f * (bracket.high - bracket.low);
  return {low < bracket.low && low > all.low ? low : all.low, bracket.low, bracket.few_below};
}

// requires T > 0, top_p on, and the row's finite maximum in `scale`, after scan_maxima
inline Cut top_p_cut(const Row& row, const MassScale& scale, const Filter& filter,
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
  if (surely_alone(m, bracket, ties, scale.max)) return {ties.y, INT32_MAX};
  for (int i = 0; i < m.count; ++i) {
    if (m.inside[i] > x) m.above += each[i];
  }
  return cut_among_ties(row, x, m.above, need, scale, ties);
}

}  // namespace
}  // namespace spec_decode_ops
