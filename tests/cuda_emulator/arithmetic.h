// SPDX-License-Identifier: Apache-2.0
// PTX instructions on the values of one lane, as the PTX ISA manual defines them, where C++ has no
// operator that does the same.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace emulator {

// Registers hold bits; instructions say what they mean.
template <class To, class From>
inline To as(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_same_v<To, float>) {
    return std::bit_cast<float>(uint32_t(x));
  } else if constexpr (std::is_same_v<To, double>) {
    return std::bit_cast<double>(uint64_t(x));
  } else {
    return To(x);
  }
}

template <class Register, class Value>
inline Register bits(Value x) {
  if constexpr (std::is_same_v<Value, float>) {
    return Register(std::bit_cast<uint32_t>(x));
  } else if constexpr (std::is_same_v<Value, double>) {
    return Register(std::bit_cast<uint64_t>(x));
  } else {
    return Register(x);
  }
}

constexpr float kNan = std::bit_cast<float>(0x7fffffffu);

// NVIDIA's arithmetic returns one NaN, whatever came in.
inline float canonical(float x) { return x != x ? kNan : x; }
inline double canonical(double x) {
  return x != x ? std::bit_cast<double>(0x7fffffffffffffffull) : x;
}

inline float flush(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

template <class T>
inline T saturate(T x) {
  return x > 0 ? (x < 1 ? x : T(1)) : T(0);
}

// The number, if the other is NaN; -0 is less than 0.
template <class T>
inline T minimum(T a, T b) {
  if (a != a || b != b) return canonical(a != a ? b : a);
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class T>
inline T maximum(T a, T b) {
  if (a != a || b != b) return canonical(a != a ? b : a);
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}

template <class T>
inline T minimum_or_nan(T a, T b) {
  return a != a || b != b ? canonical(a + b) : minimum(a, b);
}

template <class T>
inline T maximum_or_nan(T a, T b) {
  return a != a || b != b ? canonical(a + b) : maximum(a, b);
}

inline float to_float(uint16_t half) { return canonical(float(std::bit_cast<_Float16>(half))); }

inline uint16_t to_half(float x) {
  return x != x ? uint16_t(0x7fff) : std::bit_cast<uint16_t>(_Float16(x));
}

inline float from_bfloat(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }

inline uint16_t to_bfloat(float x) {
  const uint32_t word = std::bit_cast<uint32_t>(x);
  return x != x ? uint16_t(0x7fff) : uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

enum class Rounding { kNearest, kZero, kDown, kUp };

template <Rounding R, class T>
inline T to_integral(T x) {
  if constexpr (R == Rounding::kNearest) return std::nearbyint(x);
  if constexpr (R == Rounding::kZero) return std::trunc(x);
  if constexpr (R == Rounding::kDown) return std::floor(x);
  return std::ceil(x);
}

// Clamped; NaN is 0, or the most significant bit where the result has 64 bits.
template <class Integer, Rounding R, class T>
inline Integer to_integer(T x) {
  using Limits = std::numeric_limits<Integer>;
  const T y = to_integral<R>(x);
  if (y != y) return sizeof(Integer) == 8 ? Integer(1ull << 63) : Integer(0);
  if (y <= T(Limits::min())) return Limits::min();
  if (y >= T(Limits::max())) return Limits::max();
  return Integer(y);
}

// Division by zero gives all bits set, and traps nothing.
template <class T>
inline T quotient(T a, T b) {
  if (b == 0) return T(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return T(0 - std::make_unsigned_t<T>(a));
  }
  return T(a / b);
}

template <class T>
inline T remainder_of(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return T(a % b);
}

template <class T>
inline T high_product(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return T((Wide(a) * Wide(b)) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return T((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
  }
}

template <class T>
inline T shift_left(T a, uint32_t n) {
  return n >= 8 * sizeof(T) ? T(0) : T(a << n);
}

template <class T>
inline T shift_right(T a, uint32_t n) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  if constexpr (std::is_signed_v<T>) return T(a >> std::min(n, kBits - 1));
  return n >= kBits ? T(0) : T(a >> n);
}

inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t n) {
  return uint32_t(((uint64_t(high) << 32 | low) << n) >> 32);
}

inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t n) {
  return uint32_t((uint64_t(high) << 32 | low) >> n);
}

inline uint32_t leading_zeros(uint32_t x) { return uint32_t(std::countl_zero(x)); }
inline uint32_t leading_zeros(uint64_t x) { return uint32_t(std::countl_zero(x)); }

template <class T>
inline T reverse_bits(T x) {
  T reversed = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) reversed |= (x >> i & 1) << (8 * sizeof(T) - 1 - i);
  return reversed;
}

// Position of the most significant bit that is not the sign, from below or, as a shift, from above.
template <class T>
inline uint32_t find_leading(T x, bool as_shift) {
  using Unsigned = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  const Unsigned u = std::is_signed_v<T> && x < 0 ? Unsigned(~Unsigned(x)) : Unsigned(x);
  if (u == 0) return ~0u;
  const uint32_t zeros = uint32_t(std::countl_zero(u));
  return as_shift ? zeros : kBits - 1 - zeros;
}

inline uint32_t bit_mask(uint32_t from, uint32_t width) {
  if (from >= 32) return 0;
  return uint32_t((width >= 32 ? 0xffffffffull : (1ull << width) - 1) << from);
}

template <class T>
inline T extract_bits(T a, uint32_t from, uint32_t width) {
  using Unsigned = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  from &= 255;
  width &= 255;
  if (width == 0) return 0;
  const uint32_t top = std::min(from + width - 1, kBits - 1);
  const bool negative = std::is_signed_v<T> && (Unsigned(a) >> top & 1);
  Unsigned field = from >= kBits ? 0 : Unsigned(a) >> from;
  if (width < kBits) field &= (Unsigned(1) << width) - 1;
  const uint32_t kept = from >= kBits ? 0 : std::min(width, kBits - from);
  if (negative && kept < kBits) field |= Unsigned(~Unsigned(0)) << kept;
  return T(field);
}

template <class T>
inline T insert_bits(T field, T into, uint32_t from, uint32_t width) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  from &= 255;
  width &= 255;
  if (width == 0 || from >= kBits) return into;
  const T mask = T((width >= kBits ? ~T(0) : (T(1) << width) - 1) << from);
  return T((into & ~mask) | ((field << from) & mask));
}

// Each nibble of `select` names one of the eight bytes of b:a, or its sign spread over a byte.
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t select) {
  const uint64_t both = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t chosen = select >> (4 * i) & 15;
    uint32_t byte = uint32_t(both >> (8 * (chosen & 7))) & 255;
    if (chosen & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

template <class T>
inline uint32_t sum_carry(T a, T b, uint32_t carry) {
  return uint32_t((static_cast<unsigned __int128>(a) + b + carry) >> (8 * sizeof(T)));
}

// The borrow, rather.
template <class T>
inline uint32_t difference_carry(T a, T b, uint32_t borrow) {
  return static_cast<unsigned __int128>(b) + borrow > a;
}

template <class T>
inline T load(uint64_t address) {
  T x;
  std::memcpy(&x, reinterpret_cast<const void*>(address), sizeof x);
  return x;
}

template <class T>
inline void store(uint64_t address, T x) {
  std::memcpy(reinterpret_cast<void*>(address), &x, sizeof x);
}

}  // namespace emulator
