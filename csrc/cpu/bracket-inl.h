// SPDX-License-Identifier: Apache-2.0
// Between which two logits of a row the running mass crosses top_p: a guess from some of its
// logits. Who asks must check it; it decides time, never a token.
#pragma once

#include "common/prefix_filter.h"
#include "cpu/crossing-inl.h"
#include "cpu/mass-inl.h"
#include "cpu/ties-inl.h"

namespace spec_decode_ops {
namespace {

// Logits from `low` up to but not with `high`, which part no tie class; and whether fewer lie below
// `high` than from it up, as far as is known.
struct Bracket {
  float low, high;
  bool few_below;
};

// Between these lies every logit that has mass: below are weights under 2^-44.
inline Bracket all_with_mass(const MassScale& scale, float temperature) {
  const float low = scale.max - 45.0f / scale.rate - magnitude(scale.max) * 1e-6f;
  return {class_of(low > -kMaxFloat ? low : -kMaxFloat, temperature), kInfinity, false};
}

constexpr int kSampledVectors = 128;

// Some of a row's logits, each with the weight of those it stands for: the largest of each lane of
// each tile stand for themselves, and of every so many vectors the others.
class Sample {
 public:
  Sample(const Row& row, const MassScale& scale, Workspace& work)
      : value_(work.value[0]), weight_(work.value[1]), exact_(row.tiles() * kLanes) {
    const float* lane_max = row.space().lane_max;
    std::memcpy(value_, lane_max, sizeof(float) * size_t(exact_));
    count_ = exact_;
    const int vectors = row.tiles() * kTileVectors;
    for (int i = 0; i < kSampledVectors; ++i) {
      const int vector = int(int64_t(vectors) * (2 * i + 1) / (2 * kSampledVectors));
      const F x = row.sixteen(vector * kLanes);
      const F largest = load(lane_max + vector / kTileVectors * kLanes);
      count_ += store_packed(value_ + count_, x, mask_gt(largest, x));
    }
    for (; count_ % kLanes; ++count_) value_[count_] = -kInfinity;
    for (int i = 0; i < count_; i += kLanes) {
      const float stands_for = i < exact_ ? 1.0f : float(vectors) / kSampledVectors;
      store(weight_ + i, mul(weight(load(value_ + i), scale), set1(stands_for)));
    }
  }

  // Logits about from which on stand these shares of the weight. Halves two brackets at once, as a
  // sum is a long chain.
  Bracket crossings(float larger_share, float smaller_share, float least, float most) const {
    Bracket low{least, most, false}, high = low;
    const float all = weight_from(least, least).first;
    for (int step = 0; step < 11; ++step) {
      const float middle_low = 0.5f * low.low + 0.5f * low.high;
      const float middle_high = 0.5f * high.low + 0.5f * high.high;
      const TwoWeights from = weight_from(middle_low, middle_high);
      (from.first < larger_share * all ? low.high : low.low) = middle_low;
      (from.second < smaller_share * all ? high.high : high.low) = middle_high;
    }
    return {low.low, high.high, mostly_above(high.high)};
  }

 private:
  static constexpr int kTileVectors = kTile / kLanes;

  struct TwoWeights {
    float first, second;
  };
  TwoWeights weight_from(float first, float second) const {
    F from_first = set1(0.0f), from_second = from_first;
    for (int i = 0; i < count_; i += kLanes) {
      const F x = load(value_ + i), w = load(weight_ + i);
      from_first = add(from_first, choose_gt(set1(first), x, set1(0.0f), w));
      from_second = add(from_second, choose_gt(set1(second), x, set1(0.0f), w));
    }
    return {rough_sum_of(from_first), rough_sum_of(from_second)};
  }

  // Whether more of the row's logits are above x than are not, as far as those tell that stand for
  // others.
  bool mostly_above(float x) const {
    int above = 0;
    for (int i = exact_; i < count_; i += kLanes) {
      above += __builtin_popcount(mask_gt(load(value_ + i), set1(x)));
    }
    return 2 * above > count_ - exact_;
  }

  float *value_, *weight_;
  int exact_, count_;  // multiples of kLanes
};

// requires T > 0, top_p on
inline Bracket guess_bracket(const Row& row, const MassScale& scale, const Filter& filter,
                             Workspace& work) {
  const Bracket all = all_with_mass(scale, filter.temperature);
  if (row.tiles() * kTile < 8 * kSampledVectors * kLanes) return all;
  const float top_p = filter.top_p > 0.0 ? float(filter.top_p) : 0.0f;
  const float left = 0.3f * (1.0f - top_p), margin = left < 0.03f ? left : 0.03f;
  const Bracket guess =
      Sample(row, scale, work).crossings(top_p + margin, top_p - margin, all.low, scale.max);
  return {class_of(guess.low, filter.temperature),
          ties_of(guess.high, scale.max, filter.temperature).beyond, guess.few_below};
}

// What to try where the running mass crosses below a bracket: twice its width further down.
inline Bracket below(const Bracket& bracket, const MassScale& scale, float temperature) {
  const Bracket all = all_with_mass(scale, temperature);
  const float low = bracket.low - 2.0f * (bracket.high - bracket.low);
  const bool narrower = low < bracket.low && low > all.low;
  return {narrower ? class_of(low, temperature) : all.low, bracket.low, bracket.few_below};
}

}  // namespace
}  // namespace spec_decode_ops
