// SPDX-License-Identifier: Apache-2.0
// Passes over a row that reduce it: its largest logit with the maxima of each tile's 16 lanes, the
// first token that holds it, and its mass (common/mass.h) tile by tile.
#pragma once

#include "common/mass.h"
#include "cpu/row-inl.h"

namespace spec_decode_ops {
namespace {

// The largest logit, -inf in an empty row; NaN is passed over. Fills space.lane_max.
inline float scan_maxima(const Row& row) {
  float buffer[kTile];
  F largest = set1(-kInfinity);
  for (int t = 0; t < row.tiles(); ++t) {
    const float* x = row.tile(t, buffer);
    F a = set1(-kInfinity), b = a;
    for (int i = 0; i < kTile; i += 2 * kLanes) {
      a = larger(load(x + i), a);
      b = larger(load(x + i + kLanes), b);
    }
    a = larger(a, b);
    store(row.space().lane_max + t * kLanes, a);
    largest = larger(a, largest);
  }
  return max_of(largest);
}

// The same with +inf resolved: what is left has a finite maximum or is empty.
inline float finite_maximum(Row& row) {
  const float largest = scan_maxima(row);
  if (largest < kInfinity) return largest;
  row.share_among_infinite();
  return scan_maxima(row);
}

inline bool tile_reaches(const RowSpace& space, int t, float x) {
  return any_ge(load(space.lane_max + t * kLanes), set1(x));
}

// Calls visit(token, logit) for the tokens from `floor` up, by ascending id. After scan_maxima.
template <class Visit>
inline void for_each_from(const Row& row, float floor, Visit visit) {
  const F threshold = set1(floor);
  float buffer[kTile];
  for (int t = 0; t < row.tiles(); ++t) {
    if (!tile_reaches(row.space(), t, floor)) continue;
    const float* x = row.tile(t, buffer);
    for (int i = 0; i < kTile; i += kLanes) {
      for (uint32_t hits = mask_ge(load(x + i), threshold); hits; hits &= hits - 1) {
        const int lane = i + __builtin_ctz(hits);
        visit(t * kTile + lane, x[lane]);
      }
    }
  }
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

// Weights e in [0, 1] become masses rint(e * 2^43): of 16 tokens one by one, and of a tile in sum.
// A lane's sums stay within 32 bits: 32 tokens of at most 2^21 units.
template <class WeightOf>
inline void masses(const float* x, const WeightOf& weight_of, uint64_t* out) {
  const F e = weight_of(load(x));
  int32_t units[kLanes], rest[kLanes];
  store(units, mass_units(e));
  store(rest, mass_rest(e));
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = join_mass(units[lane], rest[lane]);
}

template <class WeightOf>
inline uint64_t tile_mass(const float* x, const WeightOf& weight_of) {
  I units = set1(0), rest = units;
  for (int i = 0; i < kTile; i += kLanes) {
    const F e = weight_of(load(x + i));
    units = add(units, mass_units(e));
    rest = add(rest, mass_rest(e));
  }
  return join_mass(sum_of(units), sum_of(rest));
}

// The same sum over the tokens from `floor` up.
template <class WeightOf>
inline uint64_t tile_mass_from(const float* x, const WeightOf& weight_of, float floor,
                               uint64_t& whole) {
  I units = set1(0), rest = units, all_units = units, all_rest = units;
  for (int i = 0; i < kTile; i += kLanes) {
    const F v = load(x + i), e = weight_of(v);
    const I u = mass_units(e), r = mass_rest(e);
    all_units = add(all_units, u);
    all_rest = add(all_rest, r);
    units = add(units, where_ge(v, set1(floor), u));
    rest = add(rest, where_ge(v, set1(floor), r));
  }
  whole = join_mass(sum_of(all_units), sum_of(all_rest));
  return join_mass(sum_of(units), sum_of(rest));
}

// The weight of a logit: exp((x - M)/T).
struct SoftmaxWeight {
  MassScale scale;
  HOST_DEVICE_MEMBER F operator()(F x) const { return weight(x, scale); }
};

// The weight of a probability p: p / 2^E, at most 1, so that its mass is fixed_point(p, 43 - E,
// 43). Two exact factors make 2^-E, which may not be a float itself; what they underflow has no
// mass.
struct ProbabilityWeight {
  float first, second;
  explicit ProbabilityWeight(int exponent)
      : first(power_of_two(-exponent / 2)), second(power_of_two(-exponent - -exponent / 2)) {}
  HOST_DEVICE_MEMBER F operator()(F p) const {
    return smaller(mul(mul(larger(p, set1(0.0f)), set1(first)), set1(second)), set1(1.0f));
  }

 private:
  static float power_of_two(int exponent) { return bits_float(uint32_t(exponent + 127) << 23); }
};

}  // namespace
}  // namespace spec_decode_ops
