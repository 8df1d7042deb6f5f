// SPDX-License-Identifier: Apache-2.0
// Whether a draft token is accepted, told from float sums where they leave no doubt: an accepted
// row is then read once, and none of its masses is counted. What they leave open is decided by the
// law itself (common/accept.h), as is what follows a rejection.
#pragma once

#include "cpu/mass-inl.h"

namespace spec_decode_ops {
namespace {

// A token's weight and that of its row, in one unit of any size.
struct Share {
  double token, row;
};

// A float sum of 512 weights >= 0, a lane of it of 32 terms, is off by less than 2^-18; weights are
// off by 2^-13 at most, masses from their weights by 2^-43 of the row, and the sum of a row's by
// 2^20 times as much.
constexpr double kRoughly = 0x1p-10;
constexpr double kLeastMass = 0x1p-42;

// requires what is said above; false also where weights are infinite or all zero
inline bool surely_accepted(uint64_t u, const Share& p, const Share& q) {
  const double least_p = p.token - p.row * kLeastMass, most_q = q.token + q.row * kLeastMass;
  if (!(least_p > 0.0 && q.token > 2.0 * kLeastMass * q.row)) return false;
  return (double(u) + 4096.0) * 0x1p-64 * most_q * p.row * (1.0 + kRoughly) < least_p * q.row;
}

// What surely_accepted takes of a deterministic draft.
constexpr Share kCertain = {1.0, 1.0};

// exp((x - M)/T) within 2^-13, M any logit and the weight within 2^100 of 1.
struct RoughSoftmaxWeight {
  MassScale scale;
  HOST_DEVICE_MEMBER F operator()(F x) const {
    const F magic = set1(12582912.0f + 127.0f), rate = set1(scale.rate);
    const F d = larger(sub(x, set1(scale.max)), set1(scale.floor));
    const F biased = fma(d, rate, magic), f = fma(d, rate, sub(magic, biased));
    const F power = horner(f, 0x1.fff692p-1f, 0x1.62f31ap-1f, 0x1.f0de1cp-3f, 0x1.c3f76p-5f);
    return mul(power, shift_to_exponent(biased));
  }
};

// A probability as it is; NaN and what is negative count 0.
struct RoughProbability {
  HOST_DEVICE_MEMBER F operator()(F p) const { return larger(p, set1(0.0f)); }
};

template <class WeightOf>
inline double rough_weight(const Row& row, int token, const WeightOf& weight_of) {
  return token < row.vocab() ? double(max_of(weight_of(set1(row.at(token))))) : 0.0;
}

// The row's maxima as scan_maxima finds them, and beside them the sum of its weights.
template <class WeightOf>
inline float scan_maxima_and_weigh(const Row& row, const WeightOf& weight_of, double& total) {
  F largest = set1(-kInfinity);
  for (int t = 0; t < row.tiles(); ++t) {
    F maxima = set1(-kInfinity), sum = set1(0.0f);
    row.with_unpenalised_tile(t, [&](const auto* tile) {
      for (int i = 0; i < kTile; i += kLanes) {
        const F x = load(tile + i);
        maxima = larger(x, maxima);
        sum = add(sum, weight_of(x));
      }
    });
    store(row.space().lane_max + t * kLanes, maxima);
    largest = larger(maxima, largest);
    total += double(rough_sum_of(sum));
  }
  return max_of(largest);
}

// Probabilities: the share of one token, {0, 0} if the row has +inf.
inline Share rough_share(const Row& row, int token) {
  Share share{rough_weight(row, token, RoughProbability()), 0.0};
  const float largest = scan_maxima_and_weigh(row, RoughProbability(), share.row);
  return largest < kInfinity ? share : Share{0.0, 0.0};
}

// A share that is asked for while a row's maximum is found.
struct Question {
  int token;
  double below;       // of no interest unless it may be above this
  Share share{0, 0};  // the answer; {0, 0}: there is none
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
  const RoughSoftmaxWeight weight_of{mass_scale(reference, temperature)};
  Share share{rough_weight(row, question.token, weight_of), 0.0};
  if (!(share.token > question.below)) return finite_maximum(row);
  const float largest = scan_maxima_and_weigh(row, weight_of, share.row);
  if (!(largest < kInfinity)) return finite_maximum(row);
  if ((largest - reference) * weight_of.scale.rate < 100.0f) question.share = share;
  return largest;
}

}  // namespace
}  // namespace spec_decode_ops
