// SPDX-License-Identifier: Apache-2.0
// A draw from max(p - q, 0), told from float sums where they leave no doubt: a token is the one
// drawn if the goal lies in its share of the running sum by more than whatever floats may be off.
// What they leave open is decided by integer masses (cpu/residual-inl.h).
//
// p is scaled until both laws are in the unit of q's values, by the ratio of the totals.
#pragma once

#include "cpu/float_sum-inl.h"

namespace spec_decode_ops {
namespace {

// An Excess is what the weights of a tile x of p have over those of a tile z of q, 16 of them from
// the i-th on. Values of p need no floor at 0: where one is negative or NaN nothing is left of it.

template <class P, class Q>
struct ScaledExcess {
  const P* x;
  const Q* z;
  F ratio;
  HOST_DEVICE_MEMBER F operator()(int i) const {
    const F zero = set1(0.0f);
    return larger(sub(mul(load(x + i), ratio), larger(load(z + i), zero)), zero);
  }
};

// Where 1 stands for 1 in both: values of p above it count as 1, and so would those of q, which
// leave nothing.
template <class P, class Q>
struct LikeExcess {
  const P* x;
  const Q* z;
  HOST_DEVICE_MEMBER F operator()(int i) const {
    const F zero = set1(0.0f), one = set1(1.0f);
    const F p = smaller(one, load(x + i));  // NaN stays what it is
    return larger(sub(p, larger(load(z + i), zero)), zero);
  }
};

template <class P, class Q>
inline ScaledExcess<P, Q> scaled_excess(const P* x, const Q* z, F ratio) {
  return {x, z, ratio};
}
template <class P, class Q>
inline LikeExcess<P, Q> like_excess(const P* x, const Q* z) {
  return {x, z};
}

constexpr float kNothing[kTile] = {};

// use(x, z) of tile t of p and of q, which may have fewer tiles: in the caller's dtype where that
// is the same for both.
template <class Use>
inline auto with_tiles(const Row& p, const Row& q, int t, Use use) {
  if (p.dtype() == q.dtype() && p.is_in_place(t) && t < q.tiles() && q.is_in_place(t)) {
    return p.with_tile(t, [&](const auto* x) {
      return use(x, static_cast<decltype(x)>(q.data()) + int64_t(t) * kTile);
    });
  }
  float p_buffer[kTile], q_buffer[kTile];
  return use(p.tile(t, p_buffer), t < q.tiles() ? q.tile(t, q_buffer) : kNothing);
}

// Where a running sum passes the goal.
struct Crossing {
  int token;            // of the tile; kTile: not in it
  double before, with;  // the sum, without the token and with it
};

template <class Excess>
inline Crossing crossing_of_tile(const Excess& excess, double before, double goal) {
  for (int i = 0; i < kTile; i += kLanes) {
    const double sum = rough_sum_of(add_halves(D{}, excess(i)));
    if (before + sum > goal) {
      float lanes[kLanes];
      store(lanes, excess(i));
      for (int lane = 0; lane < kLanes; ++lane) {
        const double with = before + double(lanes[lane]);
        if (with > goal) return {i + lane, before, with};
        before = with;
      }
    } else {
      before += sum;
    }
  }
  return {kTile, before, before};
}

// with_excess(t, use) returns use(the Excess of tile t). The excess of any tokens, summed without
// rounding, is within `doubt` of what the law has for them, but for a last rounding of each.
// Returns -1 where floats do not tell.
template <class WithExcess>
inline int surely_drawn(int tiles, const WithExcess& with_excess, uint64_t fraction, double doubt,
                        double* tile_sum) {
  double total = 0.0;
  for (int t = 0; t < tiles; ++t) {
    tile_sum[t] = with_excess(t, [](const auto& excess) { return sum_of_tile(excess); });
    total += tile_sum[t];
  }
  const double goal = double(fraction) * 0x1p-64 * total;
  // By how much the goal and a running sum may be off together.
  const double off = 2.0 * (doubt + total * kOffBySum);
  double before = 0.0;
  int t = 0;
  for (; t < tiles && before + tile_sum[t] <= goal; ++t) before += tile_sum[t];
  if (t == tiles) return -1;
  const Crossing at =
      with_excess(t, [&](const auto& excess) { return crossing_of_tile(excess, before, goal); });
  const bool sure = at.token < kTile && at.before + off <= goal && goal + off < at.with;
  return sure ? t * kTile + at.token : -1;
}

}  // namespace
}  // namespace spec_decode_ops
