// SPDX-License-Identifier: Apache-2.0
// The Gumbel-argmax draw (common/gumbel.h) over a row or over a few kept tokens.
//
// Exact pruning: a token whose coarse byte is not zero has G < kGumbelUnlessZero, so of a long row
// only the largest logits and the 1 token in 256 with a zero byte are scored at all. Of these,
// vectors find the few that a bound on G does not rule out; what decides is common/winner.h.
#pragma once

#include "common/winner.h"
#include "cpu/philox-inl.h"
#include "cpu/select-inl.h"

namespace spec_decode_ops {
namespace {

// Above every G of a coarse byte: G falls as the fine word grows.
struct CoarseBounds {
  float of[256];
  CoarseBounds() : of{kGumbelMax} {
    for (uint32_t coarse = 1; coarse < 256; ++coarse) of[coarse] = gumbel(coarse, 0) + 1e-4f;
  }
};

inline const CoarseBounds& coarse_bounds() {
  static const CoarseBounds bounds;
  return bounds;
}

// Above the G of tokens whose coarse byte is zero. With n = fine/2 rounded down, v >= 2n * 2^-40
// and G <= -log(v); and the bits of a float, read as a number, are a chord below its logarithm.
inline F zero_byte_bound(I half_fine) {
  constexpr float kLog2 = 0.6931472f;
  const F chord = to_float(bits_above(to_float(half_fine), 1.0f));
  return fma(chord, set1(-kLog2 * 0x1p-23f), set1(39.0f * kLog2 + 1e-3f));
}

// Shows the tokens before `cut` whose coarse byte is zero. The ids of the row's space are scratch.
inline void show_zero_bytes(const Row& row, float temperature, const Cut& cut, const Place& place,
                            Winner& winner) {
  const RowSpace& space = row.space();
  const NoiseStream coarse(place, Purpose::kSample), fine(place, Purpose::kSampleFine);
  const int count = list_zero_bytes(coarse, row.tiles(), space.id);
  const F divisor = set1(temperature), least = set1(-kMaxFloat), cut_value = set1(cut.value);
  for (int i = 0; i < count; i += kLanes) {
    int32_t token[kLanes];
    float x[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      token[lane] = zero_token(space.id[i + lane < count ? i + lane : i]);
      x[lane] = token[lane] < row.vocab() && i + lane < count ? row.at(token[lane]) : -kInfinity;
    }
    const F y = larger(div(load(x), divisor), least), best = set1(winner.score.high);
    if (!any_ge(add(y, set1(kGumbelMax)), best)) continue;
    const F bound = zero_byte_bound(fine_words(fine, load(token)));
    uint32_t open = mask_ge(add(y, bound), best) & mask_ge(y, cut_value);
    for (; open; open &= open - 1) {
      const int lane = __builtin_ctz(open);
      const float exact = quotient(x[lane], temperature);
      if (kept(exact, token[lane], cut)) winner.show(place, token[lane], exact, 0);
    }
  }
}

// Tokens that are shown 16 at a time: their coarse bytes are drawn together.
class Batch {
 public:
  explicit Batch(const Place& place) : place_(place), noise_(place, Purpose::kSample) {}

  void take(int token, float y, Winner& winner) {
    token_[count_] = token;
    y_[count_++] = y;
    if (count_ == kLanes) show(winner);
  }

  void show(Winner& winner) {
    if (count_ == 0) return;
    uint8_t coarse[kLanes];
    coarse_bytes(noise_, token_, coarse);
    for (int i = 0; i < count_; ++i) {
      if (winner.open(y_[i], bounds_.of[coarse[i]])) {
        winner.show(place_, token_[i], y_[i], coarse[i]);
      }
    }
    count_ = 0;
  }

 private:
  const Place& place_;
  const NoiseStream noise_;
  const CoarseBounds& bounds_ = coarse_bounds();
  int32_t token_[kLanes] = {};
  float y_[kLanes];
  int count_ = 0;
};

// The draw over the tokens before `cut`; -1 if there are none. requires T > 0, after scan_maxima
inline int draw_from_row(const Row& row, float x_max, float temperature, const Cut& cut,
                         const Place& place) {
  if (x_max == -kInfinity) return -1;
  Winner winner = no_winner();
  const int top = first_maximum(row, x_max);
  const float largest = quotient(x_max, temperature);
  if (kept(largest, top, cut)) winner.show(place, top, largest);
  show_zero_bytes(row, temperature, cut, place, winner);
  float floor = winner.token < 0 ? -kMaxFloat : winner.floor();
  floor = floor < largest ? floor : largest;
  Batch batch(place);
  for_each_from(row, least_logit(floor, temperature), [&](int token, float x) {
    const float y = quotient(x, temperature);
    if (kept(y, token, cut) && winner.open(y, kGumbelUnlessZero)) batch.take(token, y, winner);
  });
  batch.show(winner);
  return winner.token;
}

// The draw over selected tokens; -1 if there are none.
inline int draw_from_selection(const RowSpace& space, const Selection& selection,
                               const Place& place) {
  Winner winner = no_winner();
  int top = 0;
  for (int i = 1; i < selection.count; ++i) top = space.y[i] > space.y[top] ? i : top;
  if (selection.count) winner.show(place, space.id[top], space.y[top]);
  Batch batch(place);
  for (int i = 0; i < selection.count; ++i) batch.take(space.id[i], space.y[i], winner);
  batch.show(winner);
  return winner.token;
}

}  // namespace
}  // namespace spec_decode_ops
