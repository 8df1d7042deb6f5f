// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10: a bijection of a 128-bit counter under a 64-bit key, whose outputs pass as
// independent uniform words (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011).
#pragma once

#include <cstdint>

#include "common/macros.h"

namespace spec_decode_ops {

struct Words {
  uint32_t w0, w1, w2, w3;
};

constexpr uint32_t kPhiloxLeft = 0xD2511F53u, kPhiloxRight = 0xCD9E8D57u;
constexpr uint32_t kPhiloxKeyStep0 = 0x9E3779B9u, kPhiloxKeyStep1 = 0xBB67AE85u;

HOST_DEVICE Words philox_round(const Words& counter, uint32_t key0, uint32_t key1) {
  const uint64_t left = uint64_t(kPhiloxLeft) * counter.w0;
  const uint64_t right = uint64_t(kPhiloxRight) * counter.w2;
  return {uint32_t(right >> 32) ^ counter.w1 ^ key0, uint32_t(right),
          uint32_t(left >> 32) ^ counter.w3 ^ key1, uint32_t(left)};
}

HOST_DEVICE Words philox4x32_10(Words counter, uint64_t key) {
  uint32_t key0 = uint32_t(key), key1 = uint32_t(key >> 32);
#if defined(__CUDACC__) || defined(__clang__)
#pragma unroll
#else
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key0, key1);
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return counter;
}

}  // namespace spec_decode_ops
