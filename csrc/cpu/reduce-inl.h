// SPDX-License-Identifier: Apache-2.0
// The pass over a row that finds its largest logit and the maxima of each tile's 16 lanes, and what
// those maxima make quick: the first token that holds the largest, and the tokens above a floor.
#pragma once

#include "cpu/row-inl.h"

namespace spec_decode_ops {
namespace {

// load with its lanes in whatever order is quickest (cpu/vec_avx2.h), for what is taken lane by
// lane of many, and then brought to the order that load has.
template <class Logit>
HOST_DEVICE F load_in_any_order(const Logit* from) {
  return load(from);
}
template <class Logit>
HOST_DEVICE F in_order(const Logit*, F a) {
  return a;
}

// Lane i takes the tokens i, i + 16, i + 32, ... A call would cost as much as an eighth of a tile.
template <int kTokens, class Logit>
[[gnu::always_inline]] inline F lane_maxima(const Logit* tile) {
  // Named, not in an array, which g++ keeps in memory where vectors are four registers.
  const F none = set1(-kInfinity);
  F a = none, b = none, c = none, d = none;
#pragma GCC unroll 1  // else each load strides a whole tile, which few prefetchers follow
  for (int i = 0; i < kTokens; i += 4 * kLanes) {
    a = larger(load_in_any_order(tile + i), a);
    b = larger(load_in_any_order(tile + i + kLanes), b);
    c = larger(load_in_any_order(tile + i + 2 * kLanes), c);
    d = larger(load_in_any_order(tile + i + 3 * kLanes), d);
  }
  return in_order(tile, larger(larger(a, b), larger(c, d)));
}

inline bool tile_reaches(const RowSpace& space, int t, float x) {
  return any_ge(load(space.lane_max + t * kLanes), set1(x));
}

// The maxima, `largest` of all, were taken before penalties: a penalised token that was its lane's
// largest sends its tile through once more, any other is at most a new largest.
inline float mend_maxima(const Row& row, float largest) {
  const RowSpace& space = row.space();
  bool lowered = false;
  for (int i = 0; i < row.penalised(); ++i) {
    const int token = space.penalised_id[i], t = token / kTile;
    if (row.has_copy(t)) continue;
    float& lane = space.lane_max[t * kLanes + token % kLanes];
    if (row.unpenalised(token) < lane) {
      if (row.penalties_raise()) lane = larger(row.at(token), lane);
    } else {
      lowered = lowered || tile_reaches(space, t, largest);
      store(space.lane_max + t * kLanes, lane_maxima<kTile>(row.tile(t, nullptr)));
    }
  }
  if (!lowered && !row.penalties_raise()) return largest;
  F most = set1(-kInfinity);
  for (int t = 0; t < row.tiles(); ++t) most = larger(load(space.lane_max + t * kLanes), most);
  return max_of(most);
}

// The largest logit, -inf in an empty row; NaN is passed over. Fills space.lane_max. Calls
// beside(t) while tile t is at hand.
template <class Beside>
inline float scan_maxima(const Row& row, Beside beside) {
  float* const lane_max = row.space().lane_max;
  F largest = set1(-kInfinity);
  row.for_each_unpenalised_tile([&](int t, const auto* tile) {
    const F m = lane_maxima<kTile>(tile);
    store(lane_max + t * kLanes, m);
    largest = larger(m, largest);
    beside(t);
  });
  return row.penalised() ? mend_maxima(row, max_of(largest)) : max_of(largest);
}
inline float scan_maxima(const Row& row) {
  return scan_maxima(row, [](int) {});
}

// The same with +inf resolved: what is left has a finite maximum or is empty.
template <class Beside>
inline float finite_maximum(Row& row, Beside beside) {
  const float largest = scan_maxima(row, beside);
  if (largest < kInfinity) return largest;
  row.share_among_infinite();
  return scan_maxima(row);
}
inline float finite_maximum(Row& row) {
  return finite_maximum(row, [](int) {});
}

// How many of the row's lane maxima are at least x.
inline int lanes_reaching(const Row& row, float x) {
  int count = 0;
  for (int t = 0; t < row.tiles(); ++t) {
    count += __builtin_popcount(mask_ge(load(row.space().lane_max + t * kLanes), set1(x)));
  }
  return count;
}

// Calls visit(token, logit) for the tokens from `floor` up, by ascending id. After scan_maxima.
template <class Visit>
inline void for_each_from(const Row& row, float floor, Visit visit) {
  const F threshold = set1(floor);
  const bool may_rise = row.penalties_raise();
  for (int t = 0; t < row.tiles(); ++t) {
    if (!tile_reaches(row.space(), t, floor)) continue;
    row.with_unpenalised_tile(t, [&](const auto* x) {
      for (int i = 0; i < kTile; i += 4 * kLanes) {
        const bool reached = any_ge(lane_maxima<4 * kLanes>(x + i), threshold);
        if (!reached && !may_rise) continue;
        const uint64_t penalised = row.penalised_among(t * kTile + i);
        if (!reached && !penalised) continue;
        uint64_t hits = may_rise ? penalised : 0;
        for (int j = 0; j < 4 * kLanes; j += kLanes) {
          hits |= uint64_t(mask_ge(load(x + i + j), threshold)) << j;
        }
        for (; hits; hits &= hits - 1) {
          const int lane = __builtin_ctzll(hits), token = t * kTile + i + lane;
          const bool mended = penalised >> lane & 1;
          const float logit = mended ? row.at(token) : widen(x[i + lane]);
          if (!mended || logit >= floor) visit(token, logit);
        }
      }
    });
  }
}

// Packs those of `count` values for which `test`, asked of 16 at once, has a bit; returns how many.
// `to` may be `x`. May overwrite up to 15 after them. requires a multiple of kLanes
template <class Test>
inline int pack(const float* x, int count, float* to, Test test) {
  int packed = 0;
  for (int i = 0; i < count; i += kLanes) {
    const F v = load(x + i);
    const uint32_t hits = test(v);
    if (hits) packed += store_packed(to + packed, v, hits);
  }
  return packed;
}

// The first token equal to the row's maximum; -1 in an empty row. After scan_maxima.
inline int first_maximum(const Row& row, float largest) {
  if (largest == -kInfinity) return -1;
  float buffer[kTile];
  int t = 0;
  while (!tile_reaches(row.space(), t, largest)) ++t;
  const float* x = row.tile(t, buffer);
  for (int i = 0;; i += kLanes) {
    const uint32_t equal = mask_ge(load(x + i), set1(largest));
    if (equal) return t * kTile + i + __builtin_ctz(equal);
  }
}

}  // namespace
}  // namespace spec_decode_ops
