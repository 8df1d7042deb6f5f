// SPDX-License-Identifier: Apache-2.0
// What becomes of a draft token, told from float sums where they leave no doubt: a row is then read
// once to judge its token, and none of its masses is counted. What they leave open is decided by
// the law itself (common/accept.h).
#pragma once

#include "cpu/excess-inl.h"
#include "cpu/mass-inl.h"

namespace spec_decode_ops {
namespace {

// A token's weight, and roughly that of its row, in one unit of any size: the row's is within `off`
// of this, as a part of it.
struct Share {
  double token, row, off;
};

// A token's weight is off by 2^-17 at most, its mass from that by 2^-43 of the row, and the sum of
// a row's masses by 2^20 times as much.
constexpr double kRoughly = 0x1p-15;
constexpr double kLeastMass = 0x1p-42;

// requires what is said above; false also where weights are infinite or all zero
inline bool surely_accepted(uint64_t u, const Share& p, const Share& q) {
  const double most_p_row = p.row * (1.0 + p.off), most_q_row = q.row * (1.0 + q.off);
  const double least_p = p.token - most_p_row * kLeastMass;
  const double most_q = q.token + most_q_row * kLeastMass;
  if (!(least_p > 0.0 && q.token > 2.0 * kLeastMass * most_q_row)) return false;
  const double least_q_row = q.row * (1.0 - q.off);
  return (double(u) + 4096.0) * 0x1p-64 * most_q * most_p_row * (1.0 + kRoughly) <
         least_p * least_q_row;
}

// requires the same; false also where the draft token may have no mass
inline bool surely_rejected(uint64_t u, const Share& p, const Share& q) {
  const double most_p_row = p.row * (1.0 + p.off), most_q_row = q.row * (1.0 + q.off);
  const double most_p = p.token + most_p_row * kLeastMass;
  const double least_q = q.token - most_q_row * kLeastMass;
  if (!(p.row > 0.0 && least_q > most_q_row * kLeastMass)) return false;
  const double least_p_row = p.row * (1.0 - p.off);
  return (double(u) - 4096.0) * 0x1p-64 * least_q * least_p_row >
         most_p * most_q_row * (1.0 + kRoughly);
}

// What surely_accepted takes of a deterministic draft.
constexpr Share kCertain = {1.0, 1.0, 0.0};

// Of a row of probabilities, of which NaN and what is negative count 0. Of infinite weight where
// the row holds +inf or its sum is none of float32's.
inline Share share_of_probability(const Row& row, int token) {
  double sum = 0.0;
  row.for_each_unpenalised_tile([&](int, const auto* tile) {
    sum += sum_of_tile([tile](int i) { return larger(load(tile + i), set1(0.0f)); });
  });
  const float value = token < row.vocab() ? larger(row.at(token), 0.0f) : 0.0f;
  return {double(value), sum, kOffBySum};
}

// The token drawn from max(p - q, 0) where floats tell; -1 elsewhere. p and q are rows of
// probabilities by their sums, of which the ratio may be off by this part of it.
inline int surely_drawn_from_probabilities(const Row& p, double p_sum, const Row& q, double q_sum,
                                           double off, uint64_t fraction, Workspace& work) {
  const double ratio = q_sum / p_sum;
  if (!(q_sum > 0x1p-100 && q_sum < 0x1p100 && ratio > 0x1p-60 && ratio < 0x1p60)) return -1;
  // The ratio and what it scales are rounded, and a mass is off by 2^-43 of its row at most, which
  // both masses of a token are and both totals.
  const double doubt = (off + 0x1p-23 + 0x1p-41 * p.vocab()) * q_sum;
  const F factor = set1(float(ratio));
  const auto with_excess = [&](int t, auto use) {
    return with_tiles(
        p, q, t, [&](const auto* x, const auto* z) { return use(scaled_excess(x, z, factor)); });
  };
  return surely_drawn(p.tiles(), with_excess, fraction, doubt, work.tile_excess);
}

// Likewise from the probabilities of all tokens but one.
inline int surely_drawn_without(int token, const Row& p, double p_sum, uint64_t fraction,
                                Workspace& work) {
  if (!(p_sum > 0x1p-100 && p_sum < 0x1p100)) return -1;
  float all_of_token[kTile] = {};
  all_of_token[token % kTile] = kInfinity;
  const auto with_excess = [&](int t, auto use) {
    const float* z = t == token / kTile ? all_of_token : kNothing;
    return p.with_tile(t, [&](const auto* x) { return use(scaled_excess(x, z, set1(1.0f))); });
  };
  return surely_drawn(p.tiles(), with_excess, fraction, 0x1p-42 * p.vocab() * p_sum,
                      work.tile_excess);
}

// exp((x - M)/T) within a 32nd, M any logit and the weight within 2^100 of 1: the logarithm, as a
// fixed-point number in the place of a float's exponent and fraction, makes a float that is linear
// from one power of two to the next. It is 1 to 1.0615 times the exponential; the middle is 1.0303.
struct RoughSoftmaxWeight {
  float rate, offset;

  // The logarithm's unit is 2^-12, as it is that of floats from 2^11 to 2^12.
  static constexpr float kZero = 3072.0f + 127.0f, kLeast = kZero - 100.0f;
  static constexpr float kMiddle = 0.04303f;
  explicit RoughSoftmaxWeight(const MassScale& scale)
      : rate(scale.rate), offset(kZero - kMiddle - scale.max * scale.rate) {}
  // Whether the logarithms are not rounded by more than their unit.
  static bool fits(const MassScale& scale) { return magnitude(scale.max * scale.rate) < 4096.0f; }
  HOST_DEVICE_MEMBER F operator()(F x) const {
    return shift_bits<11>(larger(multiply_add(x, set1(rate), set1(offset)), set1(kLeast)));
  }
};

// The row's maxima as scan_maxima finds them, and beside them the sum of its weights.
inline float scan_maxima_and_weigh(const Row& row, const RoughSoftmaxWeight& weight_of,
                                   double& total) {
  F largest = set1(-kInfinity);
  row.for_each_unpenalised_tile([&](int t, const auto* tile) {
    F maxima = set1(-kInfinity), sum = set1(0.0f);
    for (int i = 0; i < kTile; i += kLanes) {
      const F x = load(tile + i);
      maxima = larger(x, maxima);
      sum = add(sum, weight_of(x));
    }
    store(row.space().lane_max + t * kLanes, maxima);
    largest = larger(maxima, largest);
    total += double(rough_sum_of(sum));
  });
  return max_of(largest);
}

// A share that is asked for while a row's maximum is found.
struct Question {
  int token;
  double below = 0.0;  // of no interest unless it may be above this
  Share share{};       // the answer; of no weight: there is none
};

// Some large logit of the row, if it has any.
inline float a_large_logit(const Row& row) {
  F largest = set1(-kInfinity);
  for (int i = 0; i < 8; ++i) {
    const int t = row.tiles() * i / 8;
    largest = larger(
        row.with_unpenalised_tile(t, [](const auto* tile) { return lane_maxima<kTile>(tile); }),
        largest);
  }
  return max_of(largest);
}

// finite_maximum, with an answer where that is no great matter. requires T > 0
inline float finite_maximum(Row& row, float temperature, Question& question) {
  const float reference = a_large_logit(row);
  const bool finite = reference > -kInfinity && reference < kInfinity;
  if (row.penalised() || !finite) return finite_maximum(row);
  const MassScale scale = mass_scale(reference, temperature);
  Share share{0.0, 0.0, 0x1p-5};
  if (question.token < row.vocab()) share.token = double(weight(row.at(question.token), scale));
  if (!(share.token > question.below && RoughSoftmaxWeight::fits(scale)))
    return finite_maximum(row);
  const float largest = scan_maxima_and_weigh(row, RoughSoftmaxWeight(scale), share.row);
  if (!(largest < kInfinity)) return finite_maximum(row);
  if ((largest - reference) * scale.rate < 100.0f) question.share = share;
  return largest;
}

}  // namespace
}  // namespace spec_decode_ops
