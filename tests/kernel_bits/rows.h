// SPDX-License-Identifier: Apache-2.0
// Rows of every family, dtype and alignment. They are made of integers and bit patterns, or by one
// exact operation, so that every machine has the same ones.
#pragma once

#include <cstring>
#include <vector>

#include "bits/inputs.h"
#include "common/params.h"

namespace rows {

using bits::Inputs;
using spec_decode_ops::bits_float;
using spec_decode_ops::DType;
using spec_decode_ops::float_bits;
using spec_decode_ops::kInfinity;
using spec_decode_ops::Logits;

// clang-format off
#define FAMILIES(X) \
  X(normal) X(flat) X(peaked) X(ties) X(constant) X(ascending) X(holes) X(infinite) X(empty) \
  X(powers) X(patterns)
// clang-format on

enum class Family : int {
#define NAME(name) name,
  FAMILIES(NAME)
#undef NAME
};

constexpr float kNan = __builtin_nanf("");

// The sum of three uniform values: -12 .. 12 in steps of 2^-13.
inline float normal(Inputs& in) {
  const int32_t sum = int32_t(in.below(65536) + in.below(65536) + in.below(65536));
  return float(sum - 98304) * 0x1p-13f;
}

inline float value_at(Family family, Inputs& in, int token, int vocab) {
  const float x = normal(in);
  switch (family) {
    case Family::normal:
      return x;
    case Family::flat:
      return 30.0f + x * 0x1p-8f;
    case Family::peaked:
      return x * 4.0f;
    case Family::ties:
      return float(int32_t(x * 4.0f)) * 0.25f;
    case Family::constant:
      return -1.5f;
    case Family::ascending:
      return float(token - vocab / 2) * 0x1p-10f;
    case Family::holes:
      return in.below(10) ? (in.below(10) ? x : -kInfinity) : kNan;
    case Family::infinite:
      return in.below(50) ? (in.below(10) ? x : kNan) : kInfinity;
    case Family::empty:
      return in.below(2) ? kNan : -kInfinity;
    case Family::powers:  // probabilities of every size
      return in.below(20) ? bits_float((126 - in.below(40)) << 23 | in.below(1 << 23)) : 0.0f;
    case Family::patterns:
      return in.any_float();
  }
  __builtin_unreachable();
}

// The 16-bit float towards zero of x; float16 has no subnormals here.
inline uint16_t narrow(float x, DType dtype) {
  const uint32_t pattern = float_bits(x), magnitude = pattern & 0x7fffffffu;
  if (dtype == DType::kBFloat16) {
    return uint16_t(magnitude > 0x7f800000u ? 0x7fc0u : pattern >> 16);
  }
  const uint32_t sign = pattern >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u) return uint16_t(sign);
  return uint16_t(sign | ((magnitude - 0x38000000u) >> 13));
}

// Rows that lie one element further from alignment each, with NaN between them.
class Rows {
 public:
  Rows(int count, int vocab, DType dtype, int shift)
      : count_(count), vocab_(vocab), dtype_(dtype), shift_(shift) {
    const size_t elements = size_t(shift + count * stride() + 8);
    bytes_.assign(elements * size_t(element()) + 64, 0xff);
  }

  void fill(int row, Family family, uint64_t index) {
    Inputs in(index);
    for (int token = 0; token < vocab_; ++token) {
      const float x = value_at(family, in, token, vocab_);
      if (dtype_ == DType::kFloat32) {
        std::memcpy(at(row, token), &x, sizeof x);
      } else {
        const uint16_t half = narrow(x, dtype_);
        std::memcpy(at(row, token), &half, sizeof half);
      }
    }
  }

  // `positions` neighbouring rows to a sequence.
  Logits logits(int positions) {
    return {at(0, 0), dtype_, int64_t(positions) * stride(), stride(), vocab_};
  }

  // A token that a float32 row likes: its first maximum, 0 in an empty row.
  int favourite(int row) {
    int best = 0;
    float largest = -kInfinity;
    for (int token = 0; token < vocab_; ++token) {
      uint32_t pattern = 0;
      std::memcpy(dtype_ == DType::kFloat32 ? (char*)&pattern : (char*)&pattern + 2, at(row, token),
                  size_t(element()));
      const float x = bits_float(pattern);
      if (x > largest) largest = x, best = token;
    }
    return best;
  }

 private:
  int64_t element() const { return dtype_ == DType::kFloat32 ? 4 : 2; }
  int64_t stride() const { return vocab_ + 1 + (vocab_ & 1); }  // odd
  char* at(int row, int token) {
    const uintptr_t aligned = (uintptr_t(bytes_.data()) + 63) / 64 * 64;
    return (char*)aligned + (shift_ + row * stride() + token) * element();
  }

  int count_, vocab_;
  DType dtype_;
  int shift_;
  std::vector<uint8_t> bytes_;
};

}  // namespace rows
