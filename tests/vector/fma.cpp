// SPDX-License-Identifier: Apache-2.0
// Prints how many lanes of the vector fma differ from fmaf, over operands whose sums land halfway
// between floats or below the normal ones far more often than chance would have it.
#include <cinttypes>
#include <cstdio>

#include "common/philox.h"
#include "cpu/vec_generic.h"

using namespace spec_decode_ops;

// Few significant bits, so that products and sums of them are often exact ties.
static float operand(uint32_t word, int kind) {
  const uint32_t sign = word & 0x80000000u, fraction = word & 0x7fffffu;
  const uint32_t few = kind & 1 ? fraction & 0x700007u : fraction & 0x000fffu;
  const uint32_t exponent = kind & 2 ? word >> 24 & 31 : 100 + (word >> 24 & 31);
  return bits_float(sign | exponent << 23 | few);
}

int main() {
  uint64_t different = 0, lanes = 0;
  for (uint32_t n = 0; n < 400000; ++n) {
    float a[kLanes], b[kLanes], c[kLanes], result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const Words words = philox4x32_10({n, uint32_t(lane), 0, 0}, 7);
      a[lane] = operand(words.w0, words.w3 & 1);
      b[lane] = operand(words.w1, words.w3 >> 1 & 3);
      c[lane] = operand(words.w2, words.w3 >> 3 & 3);
      if (words.w3 >> 5 & 1) c[lane] = a[lane] * b[lane] * bits_float((127 + 24) << 23);
    }
    store(result, fma(load(a), load(b), load(c)));
    for (int lane = 0; lane < kLanes; ++lane, ++lanes) {
      const float wanted = __builtin_fmaf(a[lane], b[lane], c[lane]);
#if defined(ROUND_TWICE)
      result[lane] = float(double(a[lane]) * b[lane] + c[lane]);
#endif
      different += float_bits(wanted) != float_bits(result[lane]);
    }
  }
  std::printf("%" PRIu64 " of %" PRIu64 "\n", different, lanes);
}
