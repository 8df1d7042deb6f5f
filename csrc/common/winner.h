// SPDX-License-Identifier: Apache-2.0
// The Gumbel-argmax draw as a running best: tokens are shown in any order, and a token that cannot
// win costs no noise.
#pragma once

#include "common/draw.h"
#include "common/floor.h"

namespace spec_decode_ops {

struct Winner {
  Score score;
  int32_t token;  // -1: none yet

  HOST_DEVICE_MEMBER void meet(Score other, int32_t other_token) {
    if (other_token < 0) return;
    if (token >= 0 && !beats(other, other_token, score, token)) return;
    score = other;
    token = other_token;
  }

  // Whether a token at quotient y whose noise is under `bound` may still win. Rounding is monotone,
  // so the rounded sum decides.
  HOST_DEVICE_MEMBER bool open(float y, float bound) const { return add(y, bound) >= score.high; }

  HOST_DEVICE_MEMBER void show(const Place& place, int32_t shown, float y, uint32_t coarse) {
    if (!open(y, coarse ? kGumbelUnlessZero : kGumbelMax)) return;
    meet(exact_sum(y, gumbel(coarse, fine_word(place, uint32_t(shown)))), shown);
  }
  HOST_DEVICE_MEMBER void show(const Place& place, int32_t shown, float y) {
    show(place, shown, y, coarse_byte(place, uint32_t(shown)));
  }

  // A quotient below which no token with a non-zero coarse byte can win.
  HOST_DEVICE_MEMBER float floor() const { return noise_floor(score.high); }
};

HOST_DEVICE Winner no_winner() { return {{-kInfinity, 0.0f}, -1}; }

}  // namespace spec_decode_ops
