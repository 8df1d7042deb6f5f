// SPDX-License-Identifier: Apache-2.0
// The inputs of check number `index`: a pure function of it, made of integers and bit patterns
// only, so that every machine puts the same questions. Random values come beside those where
// rounding, comparison and scaling change their ways: zeros, subnormals, powers of two, the largest
// float, infinities, NaN, ties.
#pragma once

#include "common/float32.h"

namespace bits {

using namespace spec_decode_ops;

// The finaliser of SplitMix64: a bijection of 64-bit words that passes as random (Steele, Lea,
// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
HOST_DEVICE uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

HOST_DEVICE double bits_double(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

HOST_DEVICE bool is_nan(float x) { return (float_bits(x) & 0x7fffffffu) > 0x7f800000u; }

HOST_DEVICE bool is_finite(float x) { return (float_bits(x) & 0x7f800000u) != 0x7f800000u; }

struct Inputs {
  uint64_t index;
  uint64_t drawn = 0;

  HOST_DEVICE_MEMBER explicit Inputs(uint64_t index) : index(index) {}

  HOST_DEVICE_MEMBER uint64_t word() {
    ++drawn;
    return mix(mix(index) + drawn * 0x9e3779b97f4a7c15u);
  }

  // requires 1 <= n <= 2^32
  HOST_DEVICE_MEMBER uint32_t below(uint64_t n) { return uint32_t((word() >> 32) * n >> 32); }

  // A word of any length, among them 0 and all ones.
  HOST_DEVICE_MEMBER uint64_t count() {
    const uint64_t random = word() >> below(64);
    const uint32_t kind = below(16);
    return kind == 0 ? 0 : kind == 1 ? ~uint64_t(0) : random;
  }

  // In [1, total]. requires total >= 1
  HOST_DEVICE_MEMBER uint64_t part_of(uint64_t total) {
    const uint64_t part = count();
    return 1 + part % total;
  }

  // 0, +-1, +-2, +-3 or an infinity: two of them are often equal.
  HOST_DEVICE_MEMBER float tied() {
    const int32_t small = int32_t(below(9)) - 4;
    if (small == 4) return kInfinity;
    return small == -4 ? -kInfinity : float(small);
  }

  // Any bit pattern. Half are of a logit's size, and half of those short, as from bfloat16.
  HOST_DEVICE_MEMBER float any_float() {
    const uint32_t pattern = uint32_t(word()), kind = below(8);
    const uint32_t sign = pattern & 0x80000000u, fraction = pattern & 0x7fffffu;
    if (kind < 2) return bits_float(pattern);
    if (kind < 6) {
      const uint32_t exponent = 123 + below(10);
      return bits_float(sign | exponent << 23 | (kind < 4 ? fraction : fraction & 0x7f0000u));
    }
    const uint32_t place = below(8);
    const uint32_t exponent = place == 0   ? 0
                              : place == 1 ? 1
                              : place == 2 ? 127
                              : place == 3 ? 255
                                           : below(256);
    return bits_float(sign | (((exponent << 23) + below(5) - 2) & 0x7fffffffu));
  }

  HOST_DEVICE_MEMBER float not_nan() {
    const float x = any_float();
    return is_nan(x) ? bits_float(float_bits(x) & 0xff800000u) : x;
  }

  HOST_DEVICE_MEMBER float finite() {
    const float x = any_float();
    return is_finite(x) ? x : bits_float(float_bits(x) ^ 0x40000000u);
  }

  // Finite and above 0.
  HOST_DEVICE_MEMBER float positive() {
    const uint32_t magnitude = float_bits(finite()) & 0x7fffffffu;
    return bits_float(magnitude ? magnitude : 1u);
  }

  HOST_DEVICE_MEMBER double any_double() {
    const uint64_t pattern = word();
    const uint32_t kind = below(8);
    const uint64_t sign = pattern & 0x8000000000000000u, fraction = pattern & 0xfffffffffffffu;
    if (kind < 2) return bits_double(pattern);
    if (kind < 6) {
      const uint64_t exponent = 1022 - below(12);
      return bits_double(exponent << 52 | (kind < 4 ? fraction : fraction & 0xffff000000000u));
    }
    const uint32_t place = below(8);
    const uint64_t exponent = place == 0   ? 0
                              : place == 1 ? 1
                              : place == 2 ? 1023
                              : place == 3 ? 2047
                                           : below(2048);
    return bits_double(sign | (((exponent << 52) + below(5) - 2) & 0x7fffffffffffffffu));
  }

  // In [0, 1).
  HOST_DEVICE_MEMBER double fraction() {
    const double x = any_double();
    uint64_t pattern;
    std::memcpy(&pattern, &x, sizeof pattern);
    return bits_double((pattern & 0x7fffffffffffffffu) % 0x3ff0000000000000u);
  }
};

}  // namespace bits
