// SPDX-License-Identifier: Apache-2.0
// Where a running sum down an order crosses a bound: the k-th largest of some values, the last
// token of a nucleus. Few entries are ranked by counting, many are narrowed down digit by digit.
#pragma once

#include "common/order.h"
#include "cpu/workspace.h"

namespace spec_decode_ops {
namespace {

constexpr int kFewEntries = 256;

// The entries in their order, the larger value first, then the earlier entry: an entry's rank is
// how many stand before it. Values past `count` are overwritten, up to a multiple of kLanes.
inline void rank_few(float* value, int count, int32_t* entry) {
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int i = count; i < padded; ++i) value[i] = -kInfinity;
  for (int i = 0; i < count; ++i) {
    const F own = set1(value[i]);
    int before = 0;
    for (int j = 0; j < padded; j += kLanes) {
      const F others = load(value + j);
      const uint32_t earlier = i >= j + kLanes ? 0xffffu : (i > j ? (1u << (i - j)) - 1 : 0u);
      before += __builtin_popcount(mask_gt(others, own) | (mask_ge(others, own) & earlier));
    }
    entry[before] = i;
  }
}

// The entry at which the running sum of weights, down the order, reaches `need`. `key` and `entry`
// are scratch. requires 1 <= need <= the whole sum, values above -inf, and room for padding
template <class WeightOf>
inline int find_crossing(float* value, int count, uint64_t need, WeightOf weight_of, uint32_t* key,
                         int32_t* entry) {
  if (count <= kFewEntries) {
    rank_few(value, count, entry);
  } else {
    for (int i = 0; i < count; ++i) {
      key[i] = order_key(value[i]);
      entry[i] = i;
    }
  }
  while (count > kFewEntries) {
    constexpr int kDigitBits = 11;
    uint32_t least = key[entry[0]], most = least;
    for (int i = 1; i < count; ++i) {
      const uint32_t k = key[entry[i]];
      least = k < least ? k : least;
      most = k > most ? k : most;
    }
    if (least == most) break;
    const int digits = 32 - __builtin_clz(least ^ most);
    const int shift = digits > kDigitBits ? digits - kDigitBits : 0;
    const auto digit = [&](int i) { return key[i] >> shift & ((1u << kDigitBits) - 1); };
    uint64_t sums[1 << kDigitBits] = {};
    for (int i = 0; i < count; ++i) sums[digit(entry[i])] += weight_of(entry[i]);
    uint32_t crossing = (1u << kDigitBits) - 1;
    while (sums[crossing] < need) need -= sums[crossing--];
    int left = 0;
    for (int i = 0; i < count; ++i) {
      if (digit(entry[i]) == crossing) entry[left++] = entry[i];
    }
    count = left;
    if (shift == 0 || count > kFewEntries) continue;
    // The few that are left, in their order: an insertion sort that keeps equals as they are.
    for (int i = 1; i < count; ++i) {
      const int32_t moved = entry[i];
      int j = i;
      for (; j > 0 && key[entry[j - 1]] < key[moved]; --j) entry[j] = entry[j - 1];
      entry[j] = moved;
    }
  }
  int i = 0;
  while (weight_of(entry[i]) < need) need -= weight_of(entry[i++]);
  return entry[i];
}

// A lower bound, near it, of the k-th largest of `count` values: the largest float with at least k
// values from it up, cut to its leading 20 bits in the order of floats; -inf if there are fewer
// than k above -inf. requires a multiple of kLanes
inline float kth_largest_bound(const float* value, int count, int64_t k) {
  uint32_t key = 0;
  for (int bit = 31; bit >= 12; --bit) {
    const uint32_t tried = key | 1u << bit;
    const F least = set1(key_value(tried));  // NaN beyond the infinities: nothing reaches it
    int64_t reaching = 0;
    for (int i = 0; i < count; i += kLanes) {
      reaching += __builtin_popcount(mask_ge(load(value + i), least));
    }
    if (reaching >= k) key = tried;
  }
  return key ? key_value(key) : -kInfinity;
}

}  // namespace
}  // namespace spec_decode_ops
