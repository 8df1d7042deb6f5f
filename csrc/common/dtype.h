// SPDX-License-Identifier: Apache-2.0
// The logit types and their exact widening to float32.
#pragma once

#include "common/float32.h"

namespace spec_decode_ops {

enum class DType : int32_t { kFloat32, kFloat16, kBFloat16 };

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

HOST_DEVICE float widen(float x) { return x; }

HOST_DEVICE float widen(BFloat16 x) { return bits_float(uint32_t(x.bits) << 16); }

// Moves exponent and fraction into place and lets one exact multiplication rebias the exponent:
// 2^112 = 2^(127 - 15). Subnormal halves come out normal; infinities and NaNs get their exponent
// back.
HOST_DEVICE float widen(Half x) {
  const uint32_t magnitude = uint32_t(x.bits & 0x7fffu) << 13;
  const uint32_t special = (x.bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  const uint32_t value = float_bits(mul(bits_float(magnitude), 0x1p112f)) | special;
  return bits_float(value | uint32_t(x.bits & 0x8000u) << 16);
}

}  // namespace spec_decode_ops
