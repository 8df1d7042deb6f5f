// SPDX-License-Identifier: Apache-2.0
// A row of logits as the kernels see it: whole tiles of float32, whatever the row's dtype, length,
// alignment and penalties. The caller's memory is read in place; only tiles that must differ from
// it are kept as copies: those with penalised tokens, the last one (padded with -inf), and, in a
// row that holds +inf, all.
#pragma once

#include "common/order.h"
#include "common/params.h"
#include "cpu/workspace.h"

namespace spec_decode_ops {
namespace {

template <class Logit>
inline void widen_tokens(const Logit* from, int count, float* to) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  for (; i < count; ++i) to[i] = widen(from[i]);
}

class Row {
 public:
  // requires 1 <= vocab <= space.capacity. Reads no logits yet.
  Row(const void* data, DType dtype, int64_t vocab, RowSpace& space)
      : data_(data),
        dtype_(dtype),
        vocab_(int(vocab)),
        tiles_(int((vocab + kTile - 1) / kTile)),
        space_(space) {
    for (int t = 0; t < tiles_; ++t) space_.patched_tile[t] = -1;
    if (vocab_ % kTile) patch(tiles_ - 1);
  }

  int vocab() const { return vocab_; }
  int tiles() const { return tiles_; }
  RowSpace& space() const { return space_; }

  // kTile float32 logits; -inf past the vocabulary. `buffer` holds them if they must be converted.
  const float* tile(int t, float* buffer) const {
    if (space_.patched_tile[t] >= 0) return patched(t);
    if (dtype_ == DType::kFloat32) return static_cast<const float*>(data_) + int64_t(t) * kTile;
    read(t * kTile, kTile, buffer);
    return buffer;
  }

  float at(int token) const {
    if (space_.patched_tile[token / kTile] >= 0) return patched(token / kTile)[token % kTile];
    float x = -kInfinity;
    read(token, 1, &x);
    return x;
  }

  // Penalises each id of [0, vocab) that is not penalised yet.
  void penalise_tokens(const int64_t* ids, int64_t count, int64_t stride, float penalty) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = ids[i * stride];
      if (id < 0 || id >= vocab_) continue;
      uint64_t& seen = space_.penalised[id / 64];
      if (seen >> (id % 64) & 1) continue;
      seen |= uint64_t(1) << (id % 64);
      float& x = patch(int(id / kTile))[id % kTile];
      x = penalise(x, penalty);
    }
  }

  // Leaves the bit map as `penalise_tokens` found it. To be called with the same ids.
  void forget_penalised(const int64_t* ids, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = ids[i * stride];
      if (id >= 0 && id < vocab_) space_.penalised[id / 64] = 0;
    }
  }

  // Tokens at +inf share the row: they count as 0, all others as -inf.
  void share_among_infinite() {
    for (int t = 0; t < tiles_; ++t) {
      float* x = patch(t);
      for (int i = 0; i < kTile; ++i) x[i] = x[i] == kInfinity ? 0.0f : -kInfinity;
    }
  }

 private:
  float* patched(int t) const { return space_.patched + int64_t(space_.patched_tile[t]) * kTile; }

  void read(int first, int count, float* to) const {
    switch (dtype_) {
      case DType::kFloat32:
        return widen_tokens(static_cast<const float*>(data_) + first, count, to);
      case DType::kFloat16:
        return widen_tokens(static_cast<const Half*>(data_) + first, count, to);
      case DType::kBFloat16:
        return widen_tokens(static_cast<const BFloat16*>(data_) + first, count, to);
    }
  }

  // The tile's own copy, made at the first call.
  float* patch(int t) {
    if (space_.patched_tile[t] < 0) {
      space_.patched_tile[t] = patches_++;
      const int first = t * kTile, count = vocab_ - first < kTile ? vocab_ - first : kTile;
      float* copy = patched(t);
      read(first, count, copy);
      for (int i = count; i < kTile; ++i) copy[i] = -kInfinity;
    }
    return patched(t);
  }

  const void* data_;
  DType dtype_;
  int vocab_, tiles_, patches_ = 0;
  RowSpace& space_;
};

}  // namespace
}  // namespace spec_decode_ops
