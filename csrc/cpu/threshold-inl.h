// SPDX-License-Identifier: Apache-2.0
// The cut of top-p over a whole row, without sorting it. A sample of the row says between which two
// logits the running mass crosses top_p, give or take a few per cent; one exact pass takes the
// row's mass, the mass above that bracket and the logits inside it; what is inside is halved until
// few are left. A bracket that missed is widened: the sample decides time, never the cut.
#pragma once

#include "common/prefix_filter.h"
#include "cpu/crossing-inl.h"
#include "cpu/mass-inl.h"

namespace spec_decode_ops {
namespace {

// Logits from `low` to `high`.
struct Bracket {
  float low, high;
};

// Between these lies every logit that has mass: below are weights under 2^-44.
inline Bracket all_with_mass(const MassScale& scale) {
  const float low = scale.max - 45.0f / scale.rate - magnitude(scale.max) * 1e-6f;
  return {low > -kMaxFloat ? low : -kMaxFloat, scale.max};
}

// Some of a row's logits, each with the weight of those it stands for.
struct Sample {
  float* value;
  float* weight;
  int count;  // a multiple of kLanes

  float weight_from(float floor) const {
    F sum = set1(0.0f);
    for (int i = 0; i < count; i += kLanes) {
      sum = add(sum, choose_gt(set1(floor), load(value + i), set1(0.0f), load(weight + i)));
    }
    return rough_sum_of(sum);
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
  Sample sample{work.value[0], work.value[1], 0};
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
  const int exact = sample.count;
  for (int i = 0; i < kSampledVectors; ++i) {
    const int vector = int(int64_t(vectors) * (2 * i + 1) / (2 * kSampledVectors));
    const F x = row.sixteen(vector * kLanes);
    sample.count += store_packed(sample.value + sample.count, x, mask_gt(from, x));
  }
  pad_and_weigh(exact, float(vectors) / kSampledVectors);
  return sample;
}

// requires 0 < top_p < 1
inline Bracket guess_bracket(const Row& row, const MassScale& scale, float top_p, Workspace& work) {
  const Bracket all = all_with_mass(scale);
  if (row.tiles() * (kTile / kLanes) < 8 * kSampledVectors) return all;
  const Sample sample = sample_of(row, scale, work);
  const float left = 0.6f * (1.0f - top_p), margin = left < 0.03f ? left : 0.03f;
  return {sample.crossing(top_p + margin, all), sample.crossing(top_p - margin, all)};
}

// The row's mass, the mass above the bracket, and the logits inside it, packed.
struct Measured {
  uint64_t total, above;
  float* inside;
  int count;
};

inline Measured measure(const Row& row, const MassScale& scale, const Bracket& bracket,
                        Workspace& work) {
  const SoftmaxWeight weight_of{scale};
  const F low = set1(bracket.low), high = set1(bracket.high);
  const F none = set1(-kInfinity), weightless = set1(0.0f);
  Measured result{0, 0, work.value[0], 0};
  float buffer[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    const float* x = row.tile(t, buffer);
    if (!tile_reaches(row.space(), t, bracket.low)) {
      result.total += tile_mass(x, weight_of);
      continue;
    }
    const Weights weights(x, kTile, weight_of);
    BareSum all, above;
    for (int i = 0; i < kTile; i += kLanes) {
      const F v = load(x + i), e = weights.at(i);
      all.take(e);
      above.take(choose_gt(v, high, e, weightless));
      const uint32_t inside = mask_ge(choose_gt(v, high, none, v), low);
      if (inside) result.count += store_packed(result.inside + result.count, v, inside);
    }
    result.total += all.total(kTile / kLanes);
    result.above += above.total(kTile / kLanes);
  }
  return result;
}

// The mass of any number of logits. May overwrite up to 31 after the last.
inline uint64_t mass_of_list(float* x, int count, const MassScale& scale) {
  const int padded = (count + 2 * kLanes - 1) / (2 * kLanes) * (2 * kLanes);
  for (int i = count; i < padded; ++i) x[i] = -kInfinity;
  uint64_t sum = 0;
  for (int i = 0; i < padded; i += kTile) {
    const int some = padded - i < kTile ? padded - i : kTile;
    sum += mass_of_tokens(x + i, some, SoftmaxWeight{scale});
  }
  return sum;
}

// Halves what is inside the bracket around the logit at which the running mass reaches `need`,
// until few are left. Moves what lies above into `above`.
inline void narrow(Measured& m, Bracket bracket, uint64_t need, const MassScale& scale,
                   float* spare) {
  constexpr int kFew = 64;  // ranking them by counting takes as long as another step
  while (m.count > kFew) {
    const float middle = 0.5f * bracket.low + 0.5f * bracket.high;
    if (!(middle > bracket.low && middle < bracket.high)) return;
    int upper = 0;
    const F pivot = set1(middle);
    for (int i = m.count; i % kLanes; ++i) m.inside[i] = -kInfinity;
    for (int i = 0; i < m.count; i += kLanes) {
      const F v = load(m.inside + i);
      upper += store_packed(spare + upper, v, mask_gt(v, pivot));
    }
    const uint64_t mass = mass_of_list(spare, upper, scale);
    if (m.above + mass >= need) {
      bracket.low = middle;
      float* rest = m.inside;
      m.inside = spare;
      spare = rest;
      m.count = upper;
      continue;
    }
    m.above += mass;
    bracket.high = middle;
    int lower = 0;
    for (int i = 0; i < m.count; i += kLanes) {
      const F v = load(m.inside + i);
      const uint32_t finite = mask_gt(v, set1(-kInfinity));
      lower += store_packed(m.inside + lower, v, mask_ge(pivot, v) & finite);
    }
    m.count = lower;
  }
}

// What top-p keeps of a whole row, and its mass.
struct Nucleus {
  Cut cut;
  uint64_t mass;
};

// That whose cut's class of equal quotients holds the logit `x`: of its tokens, by ascending id,
// those are kept before which the running mass is under `need`. `above` is the mass of logits
// above x.
inline Nucleus cut_among_ties(const Row& row, float x, uint64_t above, uint64_t need,
                              const MassScale& scale, float temperature) {
  const float y = quotient(x, temperature);
  const float from = least_logit(y, temperature);
  const bool top = y >= quotient(scale.max, temperature);
  const float next = top ? kInfinity : least_logit(key_value(order_key(y) + 1), temperature);
  const F first = set1(from), beyond = set1(next), none = set1(-kInfinity);
  int32_t* id = row.space().id;
  int ties = 0;
  float buffer[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    if (!tile_reaches(row.space(), t, from)) continue;
    const float* tile = row.tile(t, buffer);
    for (int i = 0; i < kTile; i += kLanes) {
      const F v = load(tile + i), up_to_ties = choose_gt(beyond, v, v, none);
      if (!any_ge(up_to_ties, first)) continue;
      for (uint32_t hits = mask_ge(up_to_ties, first); hits; hits &= hits - 1) {
        const int lane = i + __builtin_ctz(hits);
        id[ties++] = t * kTile + lane;
        if (tile[lane] > x) above -= mass(tile[lane], scale);
      }
    }
  }
  int last = 0;
  while ((above += mass(row.at(id[last]), scale)) < need && last < ties - 1) ++last;
  return {{y, id[last] + 1}, above};
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
    if (m.above >= need) {
      bracket = {bracket.high, all.high};
    } else if (m.above + mass_of_list(m.inside, m.count, scale) < need) {
      bracket = {all.low, bracket.low};
    } else {
      break;
    }
  }
  narrow(m, bracket, need, scale, work.value[1]);
  uint64_t* each = row.space().mass;
  for (int i = m.count; i % kLanes; ++i) m.inside[i] = -kInfinity;
  for (int i = 0; i < m.count; i += kLanes) masses(m.inside + i, SoftmaxWeight{scale}, each + i);
  const auto mass_of = [&](int i) { return each[i]; };
  const int last = find_crossing(m.inside, m.count, need - m.above, mass_of, work.key, work.index);
  const float x = m.inside[last];
  for (int i = 0; i < m.count; ++i) {
    if (m.inside[i] > x) m.above += each[i];
  }
  return cut_among_ties(row, x, m.above, need, scale, filter.temperature);
}

inline Cut top_p_cut(const Row& row, const MassScale& scale, const Filter& filter,
                     Workspace& work) {
  return find_nucleus(row, scale, filter, work).cut;
}

}  // namespace
}  // namespace spec_decode_ops
