// SPDX-License-Identifier: Apache-2.0
// Philox (common/philox.h) for the counters of one place and purpose, of which only word 1, the
// index, runs. What the other words and the key make of the first three rounds is then computed
// once, and so are the keys: four multiplications and their mixing are left out of each draw.
#pragma once

#include "common/draw.h"

namespace spec_decode_ops {

struct alignas(16) IndexedPhilox {
  // Mixed into the words of the first four rounds, of which the other products are constants.
  uint32_t round0_word0, round1_word2, round2_word0, round2_word2, round3_word0, round3_word2;
  uint32_t keys[6][2];  // of the rounds that follow

  HOST_DEVICE_MEMBER Words draw(uint32_t index) const {
    const uint64_t left1 = uint64_t(kLeft) * (index ^ round0_word0);
    const uint64_t right2 = uint64_t(kRight) * (upper(left1) ^ round1_word2);
    const uint64_t left3 = uint64_t(kLeft) * (upper(right2) ^ round2_word0);
    const uint64_t right3 = uint64_t(kRight) * (uint32_t(left1) ^ round2_word2);
    Words words = {upper(right3) ^ uint32_t(right2) ^ round3_word0, uint32_t(right3),
                   upper(left3) ^ round3_word2, uint32_t(left3)};
#if defined(__CUDACC__) || defined(__clang__)
#pragma unroll
#else
#pragma GCC unroll 6
#endif
    for (int i = 0; i < 6; ++i) words = philox_round(words, keys[i][0], keys[i][1]);
    return words;
  }

 private:
  static constexpr uint32_t kLeft = kPhiloxLeft, kRight = kPhiloxRight;
  HOST_DEVICE_MEMBER static uint32_t upper(uint64_t product) { return uint32_t(product >> 32); }
};

HOST_DEVICE IndexedPhilox indexed_philox(const Place& place, Purpose purpose) {
  const uint32_t key0 = uint32_t(place.seed), key1 = uint32_t(place.seed >> 32);
  const uint32_t tail = uint32_t(place.offset >> 32) << 4 | uint32_t(purpose);
  const uint64_t left0 = uint64_t(kPhiloxLeft) * place.stream;
  const uint64_t right0 = uint64_t(kPhiloxRight) * uint32_t(place.offset);
  const uint64_t right1 = uint64_t(kPhiloxRight) * (uint32_t(left0 >> 32) ^ tail ^ key1);
  const uint32_t round1_word0 =
      uint32_t(right1 >> 32) ^ uint32_t(right0) ^ (key0 + kPhiloxKeyStep0);
  const uint64_t left2 = uint64_t(kPhiloxLeft) * round1_word0;
  IndexedPhilox it;
  it.round0_word0 = uint32_t(right0 >> 32) ^ key0;
  it.round1_word2 = uint32_t(left0) ^ (key1 + kPhiloxKeyStep1);
  it.round2_word0 = uint32_t(right1) ^ (key0 + 2 * kPhiloxKeyStep0);
  it.round2_word2 = uint32_t(left2 >> 32) ^ (key1 + 2 * kPhiloxKeyStep1);
  it.round3_word0 = key0 + 3 * kPhiloxKeyStep0;
  it.round3_word2 = uint32_t(left2) ^ (key1 + 3 * kPhiloxKeyStep1);
  for (uint32_t i = 0; i < 6; ++i) {
    it.keys[i][0] = key0 + (4 + i) * kPhiloxKeyStep0;
    it.keys[i][1] = key1 + (4 + i) * kPhiloxKeyStep1;
  }
  return it;
}

}  // namespace spec_decode_ops
