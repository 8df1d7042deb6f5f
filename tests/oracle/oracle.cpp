// SPDX-License-Identifier: Apache-2.0
// What of csrc/common/ the oracle cannot state in numpy: Philox, the Gumbel noise, masses. The
// other functions are here to be compared with exact arithmetic (test_oracle.py).
#include "common/accept.h"
#include "common/block.h"
#include "common/draw.h"
#include "common/dtype.h"
#include "common/gumbel.h"
#include "common/mass.h"
#include "common/prefix_filter.h"

using namespace spec_decode_ops;

extern "C" {

void philox(const uint32_t* counter, uint64_t key, uint32_t* out) {
  const Words words = philox4x32_10({counter[0], counter[1], counter[2], counter[3]}, key);
  out[0] = words.w0, out[1] = words.w1, out[2] = words.w2, out[3] = words.w3;
}

uint64_t fraction(uint64_t seed, uint64_t offset, uint32_t stream, uint32_t purpose,
                  uint32_t index) {
  return draw_fraction({seed, offset, stream}, Purpose(purpose), index);
}

void noise(uint64_t seed, uint64_t offset, uint32_t stream, int64_t vocab, float* out) {
  const Place place{seed, offset, stream};
  for (int64_t t = 0; t < vocab; ++t) {
    out[t] = gumbel(coarse_byte(place, uint32_t(t)), fine_word(place, uint32_t(t)));
  }
}

void masses(const float* x, int64_t vocab, float max, float temperature, uint64_t* out) {
  const MassScale scale = mass_scale(max, temperature);
  for (int64_t t = 0; t < vocab; ++t) out[t] = mass(x[t], scale);
}

float gumbel_of(uint32_t coarse, uint32_t fine) { return gumbel(coarse, fine); }
uint64_t mass_of(float weight) { return mass_of_weight(weight); }
uint64_t fixed_point_of(float p, int32_t bits, int32_t limit) {
  return fixed_point(p, bits, limit);
}
int32_t exponent_of(float p) { return exponent_above(p); }
uint64_t quota_of(double fraction, uint64_t total) { return quota(fraction, total); }
float half_of(uint16_t bits) { return widen(Half{bits}); }
uint32_t key_of(float y) { return order_key(y); }
float value_of(uint32_t key) { return key_value(key); }
float least_logit_of(float y, float temperature) { return least_logit(y, temperature); }
float quotient_of(float x, float temperature) { return quotient(x, temperature); }

bool accepts_of(uint64_t u, uint64_t p, uint64_t p_total, uint64_t q, uint64_t q_total) {
  return accepts(u, p, p_total, q, q_total);
}

void residual_of(uint64_t p, uint64_t p_total, uint64_t q, uint64_t q_total, uint64_t* out) {
  const bool is_kept = keeps(p, p_total, q, q_total);
  const Wide weight = is_kept ? weight_of_kept(p, p_total, q, q_total) : Wide{0, 0};
  out[0] = weight.high, out[1] = weight.low;
}

void scale_of(uint64_t fraction, uint64_t high, uint64_t low, uint64_t* out) {
  const Wide goal = scale(fraction, Wide{high, low});
  out[0] = goal.high, out[1] = goal.low;
}

void divide_of(const uint64_t* a, const uint64_t* b, uint64_t* out) {
  *out = divide(Triple{a[0], a[1], a[2]}, Wide{b[0], b[1]});
}
uint64_t next_share_of(uint64_t share, uint64_t p, uint64_t p_total, uint64_t q, uint64_t q_total) {
  return next_share(share, p, p_total, q, q_total);
}
bool last_stands_of(uint64_t word, uint64_t share, uint64_t p, uint64_t p_total, uint64_t q,
                    uint64_t q_total) {
  return last_stands(word, share, p, p_total, q, q_total);
}
bool may_stand_of(uint64_t word, uint64_t share) { return may_stand(word, share); }
bool stands_of(uint64_t word, const uint64_t* sum, uint64_t share, uint64_t p_total,
               uint64_t q_total) {
  return stands(word, Triple{sum[0], sum[1], sum[2]}, share, p_total, q_total);
}
void block_weight_of(uint64_t share, uint64_t p, uint64_t p_total, uint64_t q, uint64_t q_total,
                     uint64_t* out) {
  const BlockWeights weights = block_weights(share, p_total, q_total);
  const bool is_kept = keeps(weights, p, q);
  const Triple weight = is_kept ? weight_of_kept(weights, p, q) : Triple{0, 0, 0};
  out[0] = weight.high, out[1] = weight.middle, out[2] = weight.low;
}
void scale_triple_of(uint64_t fraction, const uint64_t* a, uint64_t* out) {
  const Triple goal = scale(fraction, Triple{a[0], a[1], a[2]});
  out[0] = goal.high, out[1] = goal.middle, out[2] = goal.low;
}
void add_and_sub_of(const uint64_t* a, const uint64_t* b, uint64_t* sum, uint64_t* rest) {
  const Triple x{a[0], a[1], a[2]}, y{b[0], b[1], b[2]}, both = add(x, y), left = sub(both, y);
  sum[0] = both.high, sum[1] = both.middle, sum[2] = both.low;
  rest[0] = left.high, rest[1] = left.middle, rest[2] = left.low;
}

bool beats_of(float y, float g, int32_t token, float y2, float g2, int32_t token2) {
  return beats(exact_sum(y, g), token, exact_sum(y2, g2), token2);
}
}
