// SPDX-License-Identifier: Apache-2.0
// The Gumbel-argmax draw (common/gumbel.h) over a row or over a few kept tokens.
//
// Exact pruning: a token whose coarse byte is not zero has G < kGumbelUnlessZero, so of a long row
// only the largest logits and the 1 token in 256 with a zero byte are scored at all.
#pragma once

#include "common/winner.h"
#include "cpu/select-inl.h"

namespace spec_decode_ops {
namespace {

// Shows the kept tokens of one tile whose coarse byte is zero.
inline void show_zero_bytes(const Row& row, int t, float temperature, const Cut& cut,
                            const Place& place, Winner& winner) {
  for (int block = 0; block < kTile / kTokensPerBlock; ++block) {
    const int first = t * kTile + block * kTokensPerBlock;
    if (first >= row.vocab()) return;
    const Words words = draw_words(place, Purpose::kSample, uint32_t(first / kTokensPerBlock));
    for (int half = 0; half < 2; ++half) {
      const uint64_t bytes =
          half ? uint64_t(words.w2) << 32 | words.w3 : uint64_t(words.w0) << 32 | words.w1;
      // Its lowest set bit is exact, and bits above a zero byte may be wrong: each is looked at.
      uint64_t zeros = (bytes - 0x0101010101010101u) & ~bytes & 0x8080808080808080u;
      for (; zeros; zeros &= zeros - 1) {
        const int byte = __builtin_ctzll(zeros) / 8;
        const int token = first + 8 * half + byte;
        if ((bytes >> (8 * byte) & 0xff) || token >= row.vocab()) continue;
        const float y = quotient(row.at(token), temperature);
        if (kept(y, token, cut)) winner.show(place, token, y, 0);
      }
    }
  }
}

// The draw over the tokens before `cut`; -1 if there are none. requires T > 0, after scan_maxima
inline int draw_from_row(const Row& row, float x_max, float temperature, const Cut& cut,
                         const Place& place) {
  if (x_max == -kInfinity) return -1;
  Winner winner = no_winner();
  const int top = first_maximum(row, x_max);
  const float largest = quotient(x_max, temperature);
  if (kept(largest, top, cut)) winner.show(place, top, largest);
  for (int t = 0; t < row.tiles(); ++t) show_zero_bytes(row, t, temperature, cut, place, winner);
  float floor = winner.token < 0 ? -kMaxFloat : winner.floor();
  floor = floor < largest ? floor : largest;
  for_each_from(row, least_logit(floor, temperature), [&](int token, float x) {
    const float y = quotient(x, temperature);
    if (kept(y, token, cut) && winner.open(y, kGumbelUnlessZero)) winner.show(place, token, y);
  });
  return winner.token;
}

// The draw over selected tokens; -1 if there are none.
inline int draw_from_selection(const RowSpace& space, const Selection& selection,
                               const Place& place) {
  Winner winner = no_winner();
  int top = 0;
  for (int i = 1; i < selection.count; ++i) top = space.y[i] > space.y[top] ? i : top;
  if (selection.count) winner.show(place, space.id[top], space.y[top]);
  for (int i = 0; i < selection.count; ++i) {
    if (i != top && winner.open(space.y[i], kGumbelMax))
      winner.show(place, space.id[i], space.y[i]);
  }
  return winner.token;
}

}  // namespace
}  // namespace spec_decode_ops
