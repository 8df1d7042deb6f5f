// SPDX-License-Identifier: Apache-2.0
// The Gumbel-max trick: argmax over tokens of x/T + G, with G = -log(-log(1 - v)) and v uniform, is
// distributed as softmax(x/T).
//
// v = (coarse * 2^32 + fine + 1/2) * 2^-40. As v stands for 1 - u, the interesting end (large G,
// small v) keeps its full resolution; the other end keeps it by complement. Because a token whose
// coarse byte is not zero has G < kGumbelUnlessZero, a token that cannot win is known before its
// fine word is drawn.
#pragma once

#include "common/divide.h"

namespace spec_decode_ops {

constexpr float kGumbelMin = -3.4f;          // below every G
constexpr float kGumbelMax = 28.43f;         // above every G: v >= 2^-41
constexpr float kGumbelUnlessZero = 5.544f;  // above every G whose coarse byte is not zero

// log(2^exponent (1 + t)), within 1.23 ulp. requires 1 + t in [sqrt(1/2), sqrt(2)]
HOST_DEVICE float log_of_power(int32_t exponent, float t) {
  const float t2 = mul(t, t);
  const float tail = horner(t, 0.3333333134651184f, -0.2500081956386566f, 0.20001226663589478f,
                            -0.16623356938362122f, 0.14201757311820984f, -0.13160182535648346f,
                            0.1276157647371292f, -0.07634496688842773f);
  const float log_m = fma(tail, mul(t, t2), fma(-0.5f, t2, t));
  return fma(float(exponent), 0.693147182464599609375f, log_m);
}

// Natural logarithm of a normal x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)).
HOST_DEVICE float log_normal(float x) {
  const uint32_t bits = float_bits(x);
  const int32_t exponent = int32_t(bits - 0x3f3504f3u) >> 23;
  return log_of_power(exponent, sub(bits_float(bits - (uint32_t(exponent) << 23)), 1.0f));
}

// requires coarse < 256
HOST_DEVICE float gumbel(uint32_t coarse, uint32_t fine) {
  const bool upper = coarse >= 128;  // v > 1/2: r below is 1 - v, else v
  coarse = upper ? 255 - coarse : coarse;
  fine = upper ? ~fine : fine;
  const float low = fma(float(fine >> 16), 65536.0f, add(float(fine & 0xffffu), 0.5f));
  const float r = mul(fma(float(coarse), 4294967296.0f, low), 0x1p-40f);  // in (0, 1/2]
  const float w = upper ? r : sub(1.0f, r);
  const float minus_log = -log_normal(w);
  // -log(1 - r) for r <= 1/2: w lost the low bits of r, and the factor r / (1 - w) restores them.
  const float lost = sub(1.0f, w);
  const float restored = lost == 0.0f ? r : div(mul(minus_log, r), lost);
  return -log_normal(upper ? minus_log : restored);
}

// Above every G with this coarse byte: -log(-log(1 - v)) < -log(v), and v >= coarse / 256.
HOST_DEVICE float gumbel_bound(uint32_t coarse) {
  if (coarse == 0) return kGumbelMax;
  return mul(float(leading_zeros(coarse) - 23), 0.6932f);  // log 2, and a little
}

// The exact sum y + G in two terms: high is its rounding, low the error of that rounding.
struct Score {
  float high, low;
};

HOST_DEVICE Score exact_sum(float y, float g) {
  const float high = add(y, g);
  const float from_g = sub(high, y);
  const float from_y = sub(high, from_g);
  return {high, add(sub(y, from_y), sub(g, from_g))};
}

// Whether a token with score a is drawn rather than one with score b; equal scores go to the lower
// id.
HOST_DEVICE bool beats(Score a, int32_t a_token, Score b, int32_t b_token) {
  if (a.high != b.high) return a.high > b.high;
  if (a.low != b.low) return a.low > b.low;
  return a_token < b_token;
}

}  // namespace spec_decode_ops
