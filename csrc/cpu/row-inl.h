// SPDX-License-Identifier: Apache-2.0
// A row of logits as the kernels see it: whole tiles of float32, whatever the row's dtype, length,
// alignment and penalties. The caller's memory is read in place; only tiles that must differ from
// it are kept as copies: the last one (padded with -inf), those with penalised tokens once somebody
// reads them, and, in a row that holds +inf, all.
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
  // requires 1 <= vocab <= space.capacity. Reads no logits but those of an incomplete last tile.
  Row(const void* data, DType dtype, int64_t vocab, RowSpace& space)
      : data_(data),
        dtype_(dtype),
        vocab_(int(vocab)),
        tiles_(int((vocab + kTile - 1) / kTile)),
        space_(space) {
    for (int t = 0; t < tiles_; ++t) space_.patched_tile[t] = kInPlace;
    if (vocab_ % kTile) patch(tiles_ - 1);
  }
  ~Row() {
    for (int i = 0; i < penalised_; ++i) space_.penalised[space_.penalised_id[i] / 64] = 0;
  }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  int vocab() const { return vocab_; }
  int tiles() const { return tiles_; }
  RowSpace& space() const { return space_; }

  // kTile float32 logits; -inf past the vocabulary. `buffer` holds them if they must be converted.
  const float* tile(int t, float* buffer) const {
    return space_.patched_tile[t] == kInPlace ? in_place(t, buffer) : patch(t);
  }

  float at(int token) const {
    const int32_t patched = space_.patched_tile[token / kTile];
    if (patched == kInPlace) return unpenalised(token);
    if (patched >= 0) return space_.patched[int64_t(patched) * kTile + token % kTile];
    return is_penalised(token) ? penalise(unpenalised(token), penalty_) : unpenalised(token);
  }

  // Whether the caller's memory has the tile as it is.
  bool is_in_place(int t) const { return space_.patched_tile[t] == kInPlace; }
  // visit(logits) of the tile's kTile logits, in the caller's dtype unless there is a copy.
  template <class Visit>
  auto with_tile(int t, Visit visit) const {
    if (space_.patched_tile[t] != kInPlace) return visit(static_cast<const float*>(patch(t)));
    return with_logits([&](const auto* logits) { return visit(logits + int64_t(t) * kTile); });
  }

  // The logits of `first` and the 15 after it. requires a multiple of 16 below tiles() * kTile
  F sixteen(int first) const {
    return with_tile(first / kTile, [&](const auto* tile) { return load(tile + first % kTile); });
  }

  // Penalises each id of [0, vocab) that is not penalised yet. One penalty for all.
  void penalise_tokens(const int64_t* ids, int64_t count, int64_t stride, float penalty) {
    penalty_ = penalty;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = ids[i * stride];
      if (id < 0 || id >= vocab_ || is_penalised(int(id))) continue;
      space_.penalised[id / 64] |= uint64_t(1) << (id % 64);
      space_.penalised_id[penalised_++] = int32_t(id);
      int32_t& patched = space_.patched_tile[id / kTile];
      if (patched >= 0) {
        float& x = space_.patched[int64_t(patched) * kTile + id % kTile];
        x = penalise(x, penalty);
      } else {
        patched = kPenalised;
      }
    }
  }

  // Tokens at +inf share the row: they count as 0, all others as -inf.
  void share_among_infinite() {
    for (int t = 0; t < tiles_; ++t) {
      float* x = patch(t);
      for (int i = 0; i < kTile; ++i) x[i] = x[i] == kInfinity ? 0.0f : -kInfinity;
    }
  }

  // ---- For the pass over all tiles, which mends few tokens afterwards ----

  int penalised() const { return penalised_; }
  // Bit i is set if the logit of token `first` + i is not the one with_unpenalised_tile shows.
  // requires a multiple of 64
  uint64_t penalised_among(int first) const {
    return has_copy(first / kTile) ? 0 : space_.penalised[first / 64];
  }
  // Whether a logit may be larger than the one shown.
  bool penalties_raise() const { return penalty_ < 1.0f; }
  bool has_copy(int t) const { return space_.patched_tile[t] >= 0; }
  // with_tile, but that penalties may be left out of tiles without a copy.
  template <class Visit>
  auto with_unpenalised_tile(int t, Visit visit) const {
    if (has_copy(t)) return visit(static_cast<const float*>(patch(t)));
    const int64_t first = int64_t(t) * kTile;
    return with_logits([&](const auto* logits) { return visit(logits + first); });
  }
  // visit(t, logits) for each tile t. The dtype is asked for once: a pass that only reads feels it.
  template <class Visit>
  void for_each_unpenalised_tile(Visit visit) const {
    with_logits([&](const auto* logits) {
      for (int t = 0, tiles = tiles_; t < tiles; ++t) {
        if (has_copy(t)) {
          visit(t, static_cast<const float*>(patch(t)));
        } else {
          visit(t, logits + int64_t(t) * kTile);
        }
      }
    });
  }
  float unpenalised(int token) const {
    return with_logits([&](const auto* logits) { return widen(logits[token]); });
  }

 private:
  // What a tile has in place of the number of its copy.
  enum : int32_t { kInPlace = -1, kPenalised = -2 };

  // use(logits) of the row, in the caller's dtype.
  template <class Use>
  auto with_logits(Use use) const -> decltype(use(static_cast<const float*>(nullptr))) {
    switch (dtype_) {
      case DType::kFloat16:
        return use(static_cast<const Half*>(data_));
      case DType::kBFloat16:
        return use(static_cast<const BFloat16*>(data_));
      default:
        return use(static_cast<const float*>(data_));
    }
  }

  bool is_penalised(int token) const { return space_.penalised[token / 64] >> (token % 64) & 1; }

  const float* in_place(int t, float* buffer) const {
    if (dtype_ == DType::kFloat32) return static_cast<const float*>(data_) + int64_t(t) * kTile;
    read(t * kTile, kTile, buffer);
    return buffer;
  }

  void read(int first, int count, float* to) const {
    with_logits([&](const auto* logits) { widen_tokens(logits + first, count, to); });
  }

  // The tile's own copy, made at the first call.
  float* patch(int t) const {
    int32_t& patched = space_.patched_tile[t];
    if (patched >= 0) return space_.patched + int64_t(patched) * kTile;
    const bool penalised = patched == kPenalised;
    patched = patches_++;
    float* copy = space_.patched + int64_t(patched) * kTile;
    const int first = t * kTile, count = vocab_ - first < kTile ? vocab_ - first : kTile;
    read(first, count, copy);
    for (int i = count; i < kTile; ++i) copy[i] = -kInfinity;
    for (int i = 0; penalised && i < kTile; i += 64) {
      uint64_t bits = space_.penalised[(first + i) / 64];
      for (; bits; bits &= bits - 1) {
        float& x = copy[i + __builtin_ctzll(bits)];
        x = penalise(x, penalty_);
      }
    }
    return copy;
  }

  const void* data_;
  DType dtype_;
  int vocab_, tiles_, penalised_ = 0;
  mutable int patches_ = 0;
  float penalty_ = 1.0f;
  RowSpace& space_;
};

}  // namespace
}  // namespace spec_decode_ops
