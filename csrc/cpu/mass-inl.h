// SPDX-License-Identifier: Apache-2.0
// Masses (common/mass.h) of logits and of probabilities, 16 at a time: weights e in [0, 1] become
// rint(e * 2^43), one by one or in sum.
#pragma once

#include "common/mass.h"
#include "cpu/reduce-inl.h"

namespace spec_decode_ops {
namespace {

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

// The same for a row whose largest probability, of this E, is below 2^100 and above 2^-100: one
// factor will do, and nothing is over 1.
struct UnitedWeight {
  float factor;
  explicit UnitedWeight(int exponent) : factor(bits_float(uint32_t(127 - exponent) << 23)) {}
  static bool fits(int exponent) { return exponent > -100 && exponent < 100; }
  HOST_DEVICE_MEMBER F operator()(F p) const { return mul(larger(p, set1(0.0f)), set1(factor)); }
};

// Writes the weights of `count` tokens. They have a loop of their own, as a weight is a long chain:
// what is done with weights would keep the next chains out of the processor's window.
// requires a multiple of 2 * kLanes
template <class WeightOf>
inline void weigh(const float* x, int count, const WeightOf& weight_of, float* out) {
  for (int i = 0; i < count; i += 2 * kLanes) {
    store(out + i, weight_of(load(x + i)));
    store(out + i + kLanes, weight_of(load(x + i + kLanes)));
  }
}

// The weights of up to kTile tokens.
class Weights {
 public:
  template <class WeightOf>
  Weights(const float* x, int count, const WeightOf& weight_of) {
    weigh(x, count, weight_of, weight_);
  }
  HOST_DEVICE_MEMBER F at(int i) const { return load(weight_ + i); }

 private:
  float weight_[kTile];
};

// A running sum of masses. A lane stays within 32 bits: 512 tokens are 32 of at most 2^21 units.
constexpr int kSummedVectors = 32;
struct MassSum {
  I units, rest;

  HOST_DEVICE_MEMBER MassSum() : units(set1(0)), rest(set1(0)) {}
  HOST_DEVICE_MEMBER void take(I more_units, I more_rest) {
    units = add(units, more_units);
    rest = add(rest, more_rest);
  }
  HOST_DEVICE_MEMBER void take(F e) { take(mass_units(e), mass_rest(e)); }
  HOST_DEVICE_MEMBER uint64_t total() const { return join_mass(sum_of(units), sum_of(rest)); }
};

// The same by bare bits, mod 2^32; what they are counted from comes off at the end.
struct BareSum {
  MassSum bits;

  HOST_DEVICE_MEMBER BareSum() {}
  HOST_DEVICE_MEMBER void take(F e) {
    const F taken = add(e, set1(kUnitBase)), left = sub(set1(kUnitBase + kRestBase), taken);
    bits.take(bits_above(taken, 0.0f), bits_above(add(e, left), 0.0f));
  }
  // After this many vectors.
  HOST_DEVICE_MEMBER uint64_t total(int vectors) const {
    MassSum sum = bits;
    sum.units = sub(sum.units, set1(int32_t(uint32_t(vectors) * float_bits(kUnitBase))));
    sum.rest = sub(sum.rest, set1(int32_t(uint32_t(vectors) * float_bits(kRestBase))));
    return sum.total();
  }
};

template <class WeightOf>
inline void masses(const float* x, const WeightOf& weight_of, uint64_t* out) {
  const F e = weight_of(load(x));
  int32_t units[kLanes], rest[kLanes];
  store(units, mass_units(e));
  store(rest, mass_rest(e));
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = join_mass(units[lane], rest[lane]);
}

// Of up to kTile weights. requires a multiple of 2 * kLanes
inline uint64_t mass_of_weights(const float* e, int count) {
  BareSum sum;
  for (int i = 0; i < count; i += 2 * kLanes) {
    sum.take(load(e + i));
    sum.take(load(e + i + kLanes));
  }
  return sum.total(count / kLanes);
}

// Likewise of tokens.
template <class WeightOf>
inline uint64_t mass_of_tokens(const float* x, int count, const WeightOf& weight_of) {
  float e[kTile];
  weigh(x, count, weight_of, e);
  return mass_of_weights(e, count);
}

template <class WeightOf>
inline uint64_t tile_mass(const float* x, const WeightOf& weight_of) {
  return mass_of_tokens(x, kTile, weight_of);
}

// The same sum over the tokens from `floor` up, beside that of the whole tile.
template <class WeightOf>
inline uint64_t tile_mass_from(const float* x, const WeightOf& weight_of, float floor,
                               uint64_t& whole) {
  const Weights weights(x, kTile, weight_of);
  const F lowest = set1(floor), none = set1(0.0f);
  BareSum all, below;
  for (int i = 0; i < kTile; i += kLanes) {
    const F e = weights.at(i);
    all.take(e);
    below.take(choose_gt(lowest, load(x + i), e, none));
  }
  whole = all.total(kTile / kLanes);
  return whole - below.total(kTile / kLanes);
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

}  // namespace
}  // namespace spec_decode_ops
