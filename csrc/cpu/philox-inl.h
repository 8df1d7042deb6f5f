// SPDX-License-Identifier: Apache-2.0
// Philox (common/philox.h) on vectors, for counters of which only word 1, the index, runs: of the
// first three rounds most is then a constant of the row.
//
// Each state word is the lower half of a 64-bit lane, whose upper half may hold anything: the next
// multiplication does not see it. The last round needs no more than another: its products, mixed
// in their upper halves, are the pairs (w0<<32 | w1) and (w2<<32 | w3) in which noise is read.
//
// A target that has a better form defines what stands below by itself, and TARGET_HAS_PHILOX.
#pragma once

#include "common/draw.h"

#if !defined(TARGET_HAS_PHILOX)

namespace spec_decode_ops {
namespace {

// The pairs of 8 counters.
struct PairsOf8 {
  Q first, second;  // w0<<32 | w1, w2<<32 | w3
};

// One place and purpose.
class NoiseStream {
 public:
  NoiseStream(const Place& place, Purpose purpose) {
    uint32_t key0 = uint32_t(place.seed), key1 = uint32_t(place.seed >> 32), keys0[kRounds],
             keys1[kRounds];
    for (int round = 0; round < kRounds; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
      keys0[round] = key0;
      keys1[round] = key1;
    }
    const uint32_t tail = uint32_t(place.offset >> 32) << 4 | uint32_t(purpose);
    // Round 0: the index is only mixed into word 0.
    const uint64_t right0 = uint64_t(kRight) * uint32_t(place.offset);
    const uint64_t left0 = uint64_t(kLeft) * place.stream;
    mix_index_ = set1_wide(upper(right0) ^ keys0[0]);
    const uint32_t word2 = upper(left0) ^ tail ^ keys1[0];
    // Round 1: its right product is the row's.
    const uint64_t right1 = uint64_t(kRight) * word2;
    const uint32_t word0 = upper(right1) ^ uint32_t(right0) ^ keys0[1];
    mix_2_ = set1_wide(uint32_t(left0) ^ keys1[1]);
    // Round 2: its left product is.
    const uint64_t left2 = uint64_t(kLeft) * word0;
    mix_0_ = set1_wide(uint32_t(right1) ^ keys0[2]);
    mix_2_late_ = set1_wide(upper(left2) ^ keys1[2]);
    // Round 3 meets the last of them.
    keys_left_[3] = set1_wide(keys0[3]);
    keys_right_[3] = set1_wide(uint32_t(left2) ^ keys1[3]);
    for (int round = 4; round < kRounds; ++round) {
      const int up = round == kRounds - 1 ? 32 : 0;
      keys_left_[round] = set1_wide(uint64_t(keys0[round]) << up);
      keys_right_[round] = set1_wide(uint64_t(keys1[round]) << up);
    }
  }

  // The lower halves of `index` are the counters' indices.
  PairsOf8 draw(Q index) const {
    const Q left_factor = set1_wide(kLeft), right_factor = set1_wide(kRight);
    const Q left1 = multiply_low(exclusive_or(index, mix_index_), left_factor);
    const Q right2 = multiply_low(exclusive_or(to_lower_half(left1), mix_2_), right_factor);
    Q word0 = exclusive_or(to_lower_half(right2), mix_0_), word1 = right2;
    Q word2 = exclusive_or(left1, mix_2_late_);
    Q left = multiply_low(word0, left_factor), right = multiply_low(word2, right_factor);
    word0 = exclusive_or(exclusive_or(to_lower_half(right), word1), keys_left_[3]);
    word2 = exclusive_or(to_lower_half(left), keys_right_[3]);
#pragma GCC unroll 5
    for (int round = 4; round < kRounds - 1; ++round) {
      const Q word3 = left;
      word1 = right;
      left = multiply_low(word0, left_factor);
      right = multiply_low(word2, right_factor);
      word0 = exclusive_or(exclusive_or(to_lower_half(right), word1), keys_left_[round]);
      word2 = exclusive_or(exclusive_or(to_lower_half(left), word3), keys_right_[round]);
    }
    const Q first = exclusive_or(to_upper_half(right), keys_left_[kRounds - 1]);
    const Q second = exclusive_or(to_upper_half(left), keys_right_[kRounds - 1]);
    return {exclusive_or(multiply_low(word2, right_factor), first),
            exclusive_or(multiply_low(word0, left_factor), second)};
  }

 private:
  static constexpr int kRounds = 10;
  static constexpr uint32_t kLeft = 0xD2511F53u, kRight = 0xCD9E8D57u;
  static uint32_t upper(uint64_t product) { return uint32_t(product >> 32); }

  Q mix_index_, mix_2_, mix_0_, mix_2_late_;
  Q keys_left_[kRounds], keys_right_[kRounds];  // from round 3 on
};

// Writes first + the positions of the set bits and returns how many there are; up to 2 entries
// more are overwritten. Few bits are set: two at most as a rule, which costs no branch.
inline int list_bits(uint64_t bits, int first, int32_t* position) {
  constexpr uint64_t kGuard = uint64_t(1) << 63;  // so that there always is a bit to find
  const int set = __builtin_popcountll(bits);
  position[0] = first + __builtin_ctzll(bits | kGuard);
  bits &= bits - 1;
  position[1] = first + __builtin_ctzll(bits | kGuard);
  for (int i = 2; i < set; ++i) {
    bits &= bits - 1;
    position[i] = first + __builtin_ctzll(bits);
  }
  return set;
}

// Lists which coarse bytes of a row's noise are 0 (Purpose::kSample) as positions, of which
// `zero_token` makes tokens, and returns how many there are; up to 2 entries more are overwritten.
// Listing while Philox keeps the vector units busy costs next to nothing.
inline int list_zero_bytes(const NoiseStream& noise, int tiles, int32_t* position) {
  int found = 0;
  for (int first = 0; first < tiles * kTile; first += 8 * kTokensPerBlock) {
    const PairsOf8 pairs = noise.draw(count_from(uint64_t(first / kTokensPerBlock)));
    found += list_bits(zero_bytes(pairs.first), first, position + found);
    found += list_bits(zero_bytes(pairs.second), first + 64, position + found);
  }
  return found;
}

// The token of a position in the bytes of 128 tokens' noise, which lie in two vectors: 8 tokens of
// each 16 in the first.
inline int zero_token(int position) {
  const int byte = position & 63, second = position >> 6 & 1;
  return (position & ~127) + 2 * (byte & ~7) + (byte & 7) + 8 * second;
}

// The fine words (Purpose::kSampleFine) of 16 tokens without their lowest bit: word >> 1.
inline I fine_words(const NoiseStream& noise, I tokens) {
  Q first, second;
  to_wide(tokens, first, second);
  return upper_halves(noise.draw(first).first, noise.draw(second).first);
}

// The coarse bytes (Purpose::kSample) of 16 tokens.
inline void coarse_bytes(const NoiseStream& noise, const int32_t* tokens, uint8_t* bytes) {
  int32_t blocks[kLanes];
  for (int i = 0; i < kLanes; ++i) blocks[i] = tokens[i] / kTokensPerBlock;
  Q half[2];
  to_wide(load(blocks), half[0], half[1]);
  for (int h = 0; h < 2; ++h) {
    const PairsOf8 pairs = noise.draw(half[h]);
    uint64_t drawn[2][8];
    store(drawn[0], pairs.first);
    store(drawn[1], pairs.second);
    for (int i = 0; i < 8; ++i) {
      const int j = tokens[8 * h + i] % kTokensPerBlock;
      bytes[8 * h + i] = uint8_t(drawn[j / 8][i] >> (8 * (j % 8)));
    }
  }
}

}  // namespace
}  // namespace spec_decode_ops

#endif
