// SPDX-License-Identifier: Apache-2.0
// Which random word a decision uses. A draw is named by its place (seed, row stream, offset, token
// or position) and its purpose, never by who ran first.
//
// This layout is a public contract: changing it changes everybody's tokens (see CHANGELOG.md).
//   key     = seed
//   counter = {row stream, index, offset low 32 bits, offset high 28 bits << 4 | purpose}
#pragma once

#include "common/philox.h"

namespace spec_decode_ops {

enum class Purpose : uint32_t {
  kSample = 0,      // index: token block of 16; a coarse noise byte for each of its tokens
  kSampleFine = 1,  // index: token; the 32 bits below its coarse byte
  kAccept = 2,      // index: position in the round
  kResidual = 3,    // index: position in the round
  kBonus = 4,       // index: position in the round
};

constexpr int kTokensPerBlock = 16;
constexpr uint64_t kOffsetLimit = uint64_t(1) << 60;

struct Place {
  uint64_t seed;
  uint64_t offset;  // below kOffsetLimit
  uint32_t stream;
};

HOST_DEVICE Words draw_words(const Place& place, Purpose purpose, uint32_t index) {
  const uint32_t tail = uint32_t(place.offset >> 32) << 4 | uint32_t(purpose);
  return philox4x32_10({place.stream, index, uint32_t(place.offset), tail}, place.seed);
}

// The fraction word / 2^64 in [0, 1) of an accept, residual or bonus draw.
HOST_DEVICE uint64_t draw_fraction(const Place& place, Purpose purpose, uint32_t position) {
  const Words words = draw_words(place, purpose, position);
  return uint64_t(words.w0) << 32 | words.w1;
}

// A block's 16 coarse bytes are those of the little-endian pairs (w0<<32 | w1), (w2<<32 | w3).
HOST_DEVICE uint32_t coarse_byte(const Words& block, uint32_t token) {
  const uint32_t j = token % kTokensPerBlock;
  const uint32_t word = j < 8 ? (j < 4 ? block.w1 : block.w0) : (j < 12 ? block.w3 : block.w2);
  return word >> (8 * (j % 4)) & 0xffu;
}

HOST_DEVICE uint32_t coarse_byte(const Place& place, uint32_t token) {
  return coarse_byte(draw_words(place, Purpose::kSample, token / kTokensPerBlock), token);
}

HOST_DEVICE uint32_t fine_word(const Place& place, uint32_t token) {
  return draw_words(place, Purpose::kSampleFine, token).w0;
}

}  // namespace spec_decode_ops
