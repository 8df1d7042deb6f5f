// SPDX-License-Identifier: Apache-2.0
// A draw from max(p - q, 0), told from float sums where they leave no doubt: a token is the one
// drawn if the goal lies in its share of the running sum by more than whatever floats may be off.
// What they leave open is decided by integer masses (cpu/residual-inl.h).
//
// p is scaled until both laws are in the unit of q's values, by the ratio of the totals.
#pragma once

#include "cpu/mass-inl.h"

namespace spec_decode_ops {
namespace {

// What the weights of p have over those of q, tile by tile: an Excess has of(x, z), for the tokens
// of a tile x of p and a tile z of q, and what it returns has at(i), 16 of them from the i-th on.

// Values of p need no floor at 0: where one is negative or NaN nothing is left of it.
struct ScaledExcess {
  float ratio;

  struct Tile {
    const float *x, *z;
    F ratio;
    HOST_DEVICE_MEMBER F at(int i) const {
      const F zero = set1(0.0f);
      return larger(sub(mul(load(x + i), ratio), larger(load(z + i), zero)), zero);
    }
  };
  HOST_DEVICE_MEMBER Tile of(const float* x, const float* z) const { return {x, z, set1(ratio)}; }
};

// Where 1 stands for 1 in both: values of p above it count as 1, and so would those of q, which
// leave nothing.
struct LikeExcess {
  struct Tile {
    const float *x, *z;
    HOST_DEVICE_MEMBER F at(int i) const {
      const F zero = set1(0.0f), one = set1(1.0f);
      const F p = smaller(larger(load(x + i), zero), one);
      return sub(p, smaller(larger(load(z + i), zero), p));
    }
  };
  HOST_DEVICE_MEMBER Tile of(const float* x, const float* z) const { return {x, z}; }
};

// A lane takes 16 of the terms, and five more additions follow: off by less than 2^-19.
template <class Tile>
inline double sum_of_tile(const Tile& excess) {
  F even = set1(0.0f), odd = even;
  for (int i = 0; i < kTile; i += 2 * kLanes) {
    even = add(even, excess.at(i));
    odd = add(odd, excess.at(i + kLanes));
  }
  return double(rough_sum_of(add(even, odd)));
}

// Where a running sum passes the goal.
struct Crossing {
  int token;            // of the tile; kTile: not in it
  double before, with;  // the sum, without the token and with it
};

template <class Tile>
inline Crossing crossing_of_tile(const Tile& excess, double before, double goal) {
  for (int i = 0; i < kTile; i += kLanes) {
    const double sum = double(rough_sum_of(excess.at(i)));
    if (before + sum > goal) {
      float lanes[kLanes];
      store(lanes, excess.at(i));
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

// with_tile(t, use) calls use(x, z) with the tiles of p and q. The excess of any tokens, summed
// without rounding, is within `doubt` of what the law has for them. Returns -1 where floats do not
// tell.
template <class Excess, class WithTile>
inline int surely_drawn(const Excess& excess, int tiles, double fraction, double doubt,
                        double* tile_sum, WithTile with_tile) {
  double total = 0.0;
  for (int t = 0; t < tiles; ++t) {
    with_tile(t,
              [&](const float* x, const float* z) { tile_sum[t] = sum_of_tile(excess.of(x, z)); });
    total += tile_sum[t];
  }
  const double goal = fraction * total;
  // By how much the goal and a running sum may be off together.
  const double off = 2.0 * (doubt + total * 0x1p-19);
  double before = 0.0;
  int t = 0;
  for (; t < tiles && before + tile_sum[t] <= goal; ++t) before += tile_sum[t];
  if (t == tiles) return -1;
  Crossing at{kTile, 0.0, 0.0};
  with_tile(t, [&](const float* x, const float* z) {
    at = crossing_of_tile(excess.of(x, z), before, goal);
  });
  const bool sure = at.token < kTile && at.before + off <= goal && goal + off < at.with;
  return sure ? t * kTile + at.token : -1;
}

}  // namespace
}  // namespace spec_decode_ops
