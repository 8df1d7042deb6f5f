// SPDX-License-Identifier: Apache-2.0
// Every pure function of csrc/common/, applied to the inputs of one check and hashed: equal hashes,
// equal bits. The inputs keep to what the function requires.
#pragma once

#include "bits/inputs.h"
#include "common/accept.h"
#include "common/block.h"
#include "common/draw.h"
#include "common/dtype.h"
#include "common/gumbel.h"
#include "common/logprob.h"
#include "common/mass.h"
#include "common/order.h"
#include "common/params.h"
#include "common/prefix_filter.h"
#include "common/triple.h"
#include "common/wide.h"

namespace bits {

HOST_DEVICE uint64_t pattern_of(uint64_t x) { return x; }
// Arithmetic promises a NaN, not which: each machine has its own.
HOST_DEVICE uint64_t pattern_of(float x) { return is_nan(x) ? 0x7fc00000u : float_bits(x); }
HOST_DEVICE uint64_t pattern_of(double x) {
  uint64_t pattern;
  std::memcpy(&pattern, &x, sizeof pattern);
  return pattern;
}

template <class... Outputs>
HOST_DEVICE uint64_t hash(Outputs... outputs) {
  uint64_t h = 0;
  ((h = mix(h * 0x9e3779b97f4a7c15u + pattern_of(outputs))), ...);
  return h;
}

HOST_DEVICE uint64_t hash(Words words) {
  return hash(uint64_t(words.w0) << 32 | words.w1, uint64_t(words.w2) << 32 | words.w3);
}

HOST_DEVICE Place any_place(Inputs& in) {
  return {in.count(), in.count() % kOffsetLimit, uint32_t(in.count())};
}

HOST_DEVICE uint64_t hash_philox(Inputs in) {
  const uint64_t low = in.count(), high = in.count();
  return hash(philox4x32_10(
      {uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)}, in.count()));
}

HOST_DEVICE uint64_t hash_draw(Inputs in) {
  const Place place = any_place(in);
  const Purpose purpose = Purpose(in.below(5));
  const uint32_t index = uint32_t(in.count());
  return hash(hash(draw_words(place, purpose, index)), draw_fraction(place, purpose, index));
}

HOST_DEVICE uint64_t hash_noise(Inputs in) {
  const Place place = any_place(in);
  const uint32_t token = in.below(uint64_t(1) << kMaxVocabBits);
  return hash(uint64_t(coarse_byte(place, token)), uint64_t(fine_word(place, token)));
}

HOST_DEVICE uint64_t hash_log_normal(Inputs in) {
  const uint32_t magnitude = float_bits(in.positive());
  return hash(log_normal(bits_float(magnitude < 0x800000u ? magnitude + 0x800000u : magnitude)));
}

HOST_DEVICE uint64_t hash_gumbel(Inputs in) {
  const uint32_t coarse = in.below(256);
  return hash(gumbel(coarse, uint32_t(in.count())));
}

// Sweeps of the Gumbel go over the upper 32 of the 40 bits of noise, each word once, the rest of
// the bits in their middle. Any run of neighbouring checks is spread over all the words.
struct Noise40 {
  uint32_t coarse, fine;
};
HOST_DEVICE Noise40 noise_of_word(uint64_t index) {
  const uint32_t word = uint32_t(index) * 0x9e3779b1u;
  return {word >> 24, word << 8 | 128u};
}
HOST_DEVICE uint64_t hash_gumbel_words(Inputs in) {
  const Noise40 noise = noise_of_word(in.index);
  return hash(gumbel(noise.coarse, noise.fine));
}

// And over all 40 bits, from both ends of the coarse bytes where G changes its formula or bound.
HOST_DEVICE Noise40 noise_at_end(uint64_t index) {
  const uint32_t end = uint32_t(index % 10), step = uint32_t(index / 10), byte = end / 2;
  const uint32_t coarse = byte == 0 ? 0 : byte == 1 ? 1 : byte == 2 ? 127 : byte == 3 ? 128 : 255;
  return {coarse, end % 2 ? ~step : step};
}
HOST_DEVICE uint64_t hash_gumbel_ends(Inputs in) {
  const Noise40 noise = noise_at_end(in.index);
  return hash(gumbel(noise.coarse, noise.fine));
}

HOST_DEVICE uint64_t hash_exact_sum(Inputs in) {
  const float y = in.finite();
  const uint32_t coarse = in.below(256);
  const Score score = exact_sum(y, gumbel(coarse, uint32_t(in.word())));
  return hash(score.high, score.low);
}

HOST_DEVICE uint64_t hash_beats(Inputs in) {
  const Score a = {in.tied(), in.tied()}, b = {in.tied(), in.tied()};
  const int32_t a_token = int32_t(in.below(3)), b_token = int32_t(in.below(3));
  return hash(uint64_t(beats(a, a_token, b, b_token)));
}

HOST_DEVICE uint64_t hash_mass_scale(Inputs in) {
  const float max = in.finite();
  const MassScale scale = mass_scale(max, in.positive());
  return hash(scale.max, scale.rate, scale.floor);
}

HOST_DEVICE uint64_t hash_weight(Inputs in) {
  const float a = in.any_float(), b = in.finite();
  const float x = a == kInfinity ? -kInfinity : a > b ? b : a;
  const MassScale scale = mass_scale(a > b && a < kInfinity ? a : b, in.positive());
  return hash(weight(x, scale), mass(x, scale));
}

HOST_DEVICE uint64_t hash_mass_of_weight(Inputs in) {
  return hash(mass_of_weight(bits_float(float_bits(in.positive()) % 0x3f800001u)));
}

HOST_DEVICE uint64_t hash_fixed_point(Inputs in) {
  const float p = in.any_float();
  const int bits = int(in.below(300)) - 90;
  return hash(fixed_point(p, bits, int(in.below(64))));
}

HOST_DEVICE uint64_t hash_exponent_above(Inputs in) {
  return hash(uint64_t(exponent_above(in.positive())));
}

// Widening moves bits: here a NaN keeps its own.
HOST_DEVICE uint64_t hash_widen(Inputs in) {
  const uint16_t pattern = uint16_t(in.index);
  return hash(uint64_t(float_bits(widen(Half{pattern}))),
              uint64_t(float_bits(widen(BFloat16{pattern}))));
}

HOST_DEVICE uint64_t hash_penalise(Inputs in) {
  const float x = in.any_float();
  return hash(penalise(x, in.positive()));
}

HOST_DEVICE uint64_t hash_quotient(Inputs in) {
  const float x = in.any_float();
  return hash(quotient(x, in.positive()));
}

HOST_DEVICE uint64_t hash_order(Inputs in) {
  const uint32_t key = order_key(in.not_nan());
  return hash(uint64_t(key), key_value(key));
}

HOST_DEVICE uint64_t hash_least_logit(Inputs in) {
  const float temperature = in.positive();
  const uint32_t greatest = order_key(quotient(kMaxFloat, temperature));
  const uint32_t near = order_key(quotient(in.finite(), temperature)) + in.below(3) - 1;
  return hash(least_logit(key_value(near < greatest ? near : greatest), temperature));
}

HOST_DEVICE uint64_t hash_quota(Inputs in) {
  const double fraction = in.fraction();
  const uint64_t total = in.count();
  return hash(quota(fraction, total), top_p_quota(fraction, total), min_p_bound(fraction));
}

HOST_DEVICE uint64_t hash_cut(Inputs in) {
  const Cut a = {in.tied(), int32_t(in.below(3))}, b = {in.tied(), int32_t(in.below(3))};
  const Cut cut = stricter(a, b);
  const float y = in.tied();
  const int32_t token = int32_t(in.below(3));
  return hash(cut.value, uint64_t(cut.id), uint64_t(kept(y, token, cut)),
              uint64_t(kept(y, token, keep_all())));
}

HOST_DEVICE uint64_t hash_filter(Inputs in) {
  const float temperature = in.any_float(), penalty = in.any_float();
  const double top_p = in.any_double(), min_p = in.any_double();
  const int64_t vocab = 1 + in.below(4), top_k = int64_t(in.below(2) ? in.below(8) : in.count());
  const Filter filter = with_meaning({temperature, top_k, top_p, min_p, penalty});
  const Filter only_top_k = {temperature, top_k, 1.0, 0.0, penalty};
  return hash(filter.temperature, uint64_t(filter.top_k), filter.top_p, filter.min_p,
              filter.penalty, uint64_t(greedy(filter)), uint64_t(keeps_everything(filter, vocab)),
              uint64_t(keeps_everything(only_top_k, vocab)));
}

HOST_DEVICE uint64_t hash_accept(Inputs in) {
  const uint64_t u = in.count();
  const uint64_t p_total = in.count() | 1, q_total = in.count() | 1;
  const uint64_t p = in.part_of(p_total) - in.below(2), q = in.part_of(q_total);
  const bool is_kept = keeps(p, p_total, q, q_total);
  const Wide rest = is_kept ? weight_of_kept(p, p_total, q, q_total) : Wide{0, 0};
  return hash(uint64_t(accepts(u, p, p_total, q, q_total)), rest.high, rest.low);
}

HOST_DEVICE StripMass any_strip(Inputs& in) {
  const float max = in.not_nan();
  return {max, max == -kInfinity ? 0 : kMassOfMax + in.count() % (kMassOfMax * 511 + 1)};
}

HOST_DEVICE uint64_t hash_mass_in_row(Inputs in) {
  const StripMass a = any_strip(in), b = any_strip(in);
  const float row_max = a.max > b.max ? a.max : b.max;
  return hash(mass_in_row(a, row_max, strip_scale(row_max, in.positive())));
}

HOST_DEVICE uint64_t hash_log_probability(Inputs in) {
  StripMass row = any_strip(in);
  const float a = in.any_float(), x = a > row.max ? row.max : a;
  if (row.max == -kInfinity) row.mass = kMassOfMax;
  return hash(log_mass(row.mass), log_probability(x, row, in.positive()),
              greedy_log_probability(x, row.max));
}

HOST_DEVICE uint64_t hash_wide(Inputs in) {
  Wide a = {in.count(), in.count()}, b = {in.below(2) ? in.count() : a.high, in.count()};
  const bool a_is_less = less(a, b);
  const Wide sum = add(a, b), difference = a_is_less ? sub(b, a) : sub(a, b);
  const Wide product = multiply(a.low, b.low), scaled = scale(in.count(), a);
  return hash(uint64_t(a_is_less), uint64_t(is_zero(difference)), sum.high, sum.low,
              difference.high, difference.low, product.high, product.low, scaled.high, scaled.low);
}

HOST_DEVICE Triple any_triple(Inputs& in) {
  return {in.below(2) ? in.count() >> 1 : 0, in.below(2) ? in.count() : 0, in.count()};
}

HOST_DEVICE uint64_t hash_triple(Inputs in) {
  const Triple a = any_triple(in), b = any_triple(in);
  const bool a_is_less = less(a, b);
  const Triple sum = add(a, b), difference = a_is_less ? sub(b, a) : sub(a, b);
  const Triple scaled = scale(in.count(), a);
  const Wide factor = {in.count() >> 8, in.count()};
  const Triple product = multiply(factor, in.count() >> 2);
  const Wide divisor = {in.below(2) ? in.count() : 0, in.count() | 1};
  const Triple multiple = multiply(Wide{divisor.high >> 1, divisor.low}, in.count() >> 1);
  return hash(hash(uint64_t(a_is_less), uint64_t(is_zero(difference)), sum.high, sum.middle),
              hash(sum.low, difference.high, difference.middle, difference.low, scaled.high),
              hash(scaled.middle, scaled.low, product.high, product.middle, product.low),
              divide(multiple, divisor));
}

HOST_DEVICE uint64_t hash_block(Inputs in) {
  constexpr uint64_t kMostTotal = uint64_t(1) << 63;
  const uint64_t word = in.count(), share = in.part_of(kWholeShare);
  const uint64_t p_total = in.part_of(kMostTotal) | 1, q_total = in.part_of(kMostTotal) | 1;
  const uint64_t p = in.part_of(kMassOfMax), q = in.part_of(kMassOfMax) | 1;
  const BlockWeights weights = block_weights(share, p_total, q_total);
  const bool is_kept = keeps(weights, p, q);
  const Triple weight = is_kept ? weight_of_kept(weights, p, q) : Triple{0, 0, 0};
  return hash(next_share(share, p, p_total, q, q_total),
              uint64_t(last_stands(word, share, p, p_total, q, q_total)),
              uint64_t(may_stand(word, share)),
              uint64_t(stands(word, weight, share, p_total, q_total)),
              hash(weight.high, weight.middle, weight.low));
}

// The one list of what is checked; X is applied to each name.
// clang-format off
#define PURE_FUNCTIONS(X) \
  X(philox) X(draw) X(noise) X(log_normal) X(gumbel) X(gumbel_words) X(gumbel_ends) \
  X(exact_sum) X(beats) X(mass_scale) X(weight) X(mass_of_weight) X(fixed_point) \
  X(exponent_above) X(widen) X(penalise) X(quotient) X(order) X(least_logit) X(quota) \
  X(cut) X(filter) X(accept) X(mass_in_row) X(log_probability) X(wide) X(triple) X(block)
// clang-format on

}  // namespace bits
