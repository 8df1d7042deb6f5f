// SPDX-License-Identifier: Apache-2.0
// Between which two logits of a row the running mass crosses top_p: a guess from some of its
// logits. Who asks must check it; it decides time, never a token.
#pragma once

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

// What to try where the running mass crosses below a bracket: twice its width further down.
inline Bracket below(const Bracket& bracket, const Bracket& all) {
  const float low = bracket.low - 2.0f * (bracket.high - bracket.low);
  return {low < bracket.low && low > all.low ? low : all.low, bracket.low, bracket.few_below};
}

}  // namespace
}  // namespace spec_decode_ops
