// SPDX-License-Identifier: Apache-2.0
// Prints a hash of what every operation of a vector vocabulary gives, over floats of all sizes,
// NaN, infinities and zeros of both signs. VOCABULARY is the header.
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>

#include "common/dtype.h"
#include "common/philox.h"
#include VOCABULARY

using namespace spec_decode_ops;

static uint64_t hash;

static void mix(uint64_t word) { hash = (hash ^ word) * 0x9E3779B97F4A7C15u + (hash >> 29); }
static void mix(F a) {
  float lanes[kLanes];
  store(lanes, a);
  // Which NaN a sum gives is nobody's promise.
  for (float x : lanes) mix(uint64_t(x == x ? float_bits(x) : 0x7fc00000u));
}
static void mix(I a) {
  int32_t lanes[kLanes];
  store(lanes, a);
  for (int32_t x : lanes) mix(uint64_t(uint32_t(x)));
}
static void mix(Q a) {
  uint64_t lanes[kLanes / 2];
  store(lanes, a);
  for (uint64_t x : lanes) mix(x);
}
static void mix(D a) {
  double lanes[kLanes / 2];
  std::memcpy(lanes, &a, sizeof a);
  for (double x : lanes) {
    uint64_t bits = 0;
    if (x == x) std::memcpy(&bits, &x, sizeof bits);
    mix(bits);
  }
}

struct Inputs {
  float a[kLanes], b[kLanes], c[kLanes];
  int32_t n[kLanes], m[kLanes];
  Half half[kLanes];
  BFloat16 brain[kLanes];
  Q wide, other;
};

static Inputs inputs(uint32_t round) {
  const float special[] = {0.0f, -0.0f, kInfinity, -kInfinity, bits_float(0x7fc00000u), 1e-41f};
  Inputs in;
  for (int lane = 0; lane < kLanes; ++lane) {
    const Words w = philox4x32_10({round, uint32_t(lane), 0, 0}, 1);
    in.a[lane] = w.w3 % 8 < 6 ? bits_float(w.w0) : special[w.w3 / 8 % 6];
    in.b[lane] = w.w3 / 64 % 4 ? bits_float(w.w1) : in.a[lane];
    in.c[lane] = bits_float(w.w2);
    in.n[lane] = int32_t(w.w1);
    in.m[lane] = int32_t(w.w2);
    in.half[lane].bits = uint16_t(w.w0);
    in.brain[lane].bits = uint16_t(w.w1);
  }
  in.wide = set1_wide(uint64_t(round) * 0x9E3779B97F4A7C15u);
  in.other = count_from(uint64_t(round) << 31 | 0xfffffffau);
  return in;
}

template <class Operation>
static void report(const char* name, Operation operation) {
  hash = 0;
  for (uint32_t round = 0; round < 4000; ++round) operation(inputs(round));
  std::printf("%s %016" PRIx64 "\n", name, hash);
}

#define REPORT(...)                                         \
  report(#__VA_ARGS__, [](const Inputs& in) {               \
    const F a = load(in.a), b = load(in.b), c = load(in.c); \
    const I n = load(in.n), m = load(in.m);                 \
    (void)a, (void)b, (void)c, (void)n, (void)m;            \
    mix(__VA_ARGS__);                                       \
  })

static uint64_t packed(F a, uint32_t mask) {
  float lanes[3 * kLanes];
  const int count = store_packed(lanes, a, mask & 0xffff);
  uint64_t sum = uint64_t(count);
  for (int i = 0; i < count; ++i) sum = sum * 31 + float_bits(lanes[i]);
  return sum;
}
static Q widened(I a, int half) {
  Q parts[2];
  to_wide(a, parts[0], parts[1]);
  return parts[half];
}

static F larger_of(F a, F b) {
#if defined(OTHER_OPERAND)  // differs where one is NaN
  return larger(b, a);
#else
  return larger(a, b);
#endif
}

int main() {
  REPORT(load(in.half));
  REPORT(load(in.brain));
  REPORT(add(a, b));
  REPORT(sub(a, b));
  REPORT(mul(a, b));
  REPORT(div(a, b));
  REPORT(fma(a, b, c));
  REPORT(larger_of(a, b));
  REPORT(smaller(a, b));
  REPORT(smaller(b, a));
  REPORT(shift_to_exponent(a));
  REPORT(bits_above(a, 6.0f));
  REPORT(to_float(n));
  REPORT(add_halves(add_halves(D{}, a), c));
  REPORT(add(n, m));
  REPORT(sub(n, m));
  REPORT(multiply_low(in.wide, in.other));
  REPORT(exclusive_or(in.wide, in.other));
  REPORT(to_lower_half(in.wide));
  REPORT(to_upper_half(in.other));
  REPORT(widened(n, 0));
  REPORT(widened(n, 1));
  REPORT(upper_halves(in.wide, in.other));
  REPORT(zero_bytes(exclusive_or(in.other, set1_wide(0xff00u))));
  REPORT(uint64_t(mask_ge(a, b)));
  REPORT(uint64_t(mask_gt(a, b)));
  REPORT(uint64_t(any_ge(a, b)));
  REPORT(where_ge(a, b, n));
  REPORT(choose_gt(a, b, c, a));
  REPORT(packed(c, uint32_t(in.n[0])));
  REPORT(uint64_t(float_bits(max_of(larger(a, set1(-1.0f))))));
  REPORT(uint64_t(sum_of(n)));
}
