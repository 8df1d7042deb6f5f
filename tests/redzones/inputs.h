// SPDX-License-Identifier: Apache-2.0
// What a case gives a kernel, in fenced memory: rows, ids, parameters and room for results. Values
// are a function of the case; how they lie in memory is one of the layout too.
#pragma once

#include <memory>
#include <vector>

#include "kernel_bits/rows.h"
#include "redzones/fenced.h"

namespace redzones {

using namespace spec_decode_ops;
using bits::Inputs;
using rows::Family;

// Chooses gaps and ends. The plain one has no gaps, and all memory starts a page.
class Layout {
 public:
  Layout(bool plain, uint64_t index) : plain_(plain), in_(~index) {}
  bool at_end() { return !plain_ && in_.below(4) > 0; }
  int gap(int most) { return plain_ || in_.below(2) ? 0 : int(in_.below(uint64_t(most) + 1)); }
  bool plain() const { return plain_; }

 private:
  bool plain_;
  Inputs in_;
};

// Values `stride` elements apart.
template <class T>
class Spaced {
 public:
  Spaced(const std::vector<T>& values, Layout& layout)
      : stride_(1 + layout.gap(2)),
        memory_(values.empty() ? 0 : ((values.size() - 1) * stride_ + 1) * sizeof(T),
                layout.at_end()) {
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(memory_.data() + i * stride_ * sizeof(T), &values[i], sizeof(T));
    }
    memory_.seal();
  }
  const T* data() const { return reinterpret_cast<const T*>(memory_.data()); }
  int64_t stride() const { return int64_t(stride_); }

 private:
  size_t stride_;
  Fenced memory_;
};

// One value for all rows, or one a row.
template <class T>
class Parameter {
 public:
  template <class Value>
  Parameter(Inputs& in, int rows, Layout& layout, Value value) : scalar_(value(in)) {
    if (in.below(2)) return;
    std::vector<T> values;
    for (int r = 0; r < rows; ++r) values.push_back(value(in));
    values_ = std::make_unique<Spaced<T>>(values, layout);
  }
  PerRow<T> get() const {
    if (!values_) return {nullptr, 0, scalar_};
    return {values_->data(), values_->stride(), scalar_};
  }

 private:
  T scalar_;
  std::unique_ptr<Spaced<T>> values_;
};

// Rows [count, vocab] of a family. With `same` all are the first, and any layout but the plain one
// has only that.
class Block {
 public:
  Block(int count, int vocab, DType dtype, Family family, uint64_t index, bool same, Layout& layout)
      : vocab_(vocab),
        dtype_(dtype),
        stride_(same && !layout.plain() ? 0 : vocab + layout.gap(17)),
        memory_(count ? size_t((count - 1) * stride_ + vocab) * element() : 0, layout.at_end()) {
    for (int r = 0; r < count; ++r) {
      fill(r, family, same ? index : index + uint64_t(r));
      if (r + 1 < count && stride_ > vocab_) {
        FORBID(at(r, vocab_), size_t(stride_ - vocab_) * element());
      }
    }
    memory_.seal();
  }

  // `positions` neighbouring rows to a sequence.
  Logits logits(int positions) const {
    return {memory_.data(), dtype_, positions * stride_, stride_, vocab_};
  }

 private:
  size_t element() const { return dtype_ == DType::kFloat32 ? 4 : 2; }
  char* at(int row, int token) const {
    return memory_.data() + size_t(row * stride_ + token) * element();
  }
  void fill(int row, Family family, uint64_t index) {
    Inputs in(index);
    for (int token = 0; token < vocab_; ++token) {
      const float x = rows::value_at(family, in, token, vocab_);
      const uint32_t pattern = float_bits(x);
      const uint16_t half = dtype_ == DType::kFloat32 ? 0 : rows::narrow(x, dtype_);
      std::memcpy(at(row, token), dtype_ == DType::kFloat32 ? (const void*)&pattern : &half,
                  element());
    }
  }

  int vocab_;
  DType dtype_;
  int64_t stride_;
  Fenced memory_;
};

// Room for results.
template <class T>
class Room {
 public:
  Room(int count, Layout& layout)
      : count_(count), memory_(size_t(count) * sizeof(T), layout.at_end()) {}
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }

  // Adds the results to `out`; whether nothing else was written to.
  bool take(std::vector<uint64_t>& out) {
    for (int i = 0; i < count_; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, data() + i, sizeof(T));
      out.push_back(word);
    }
    return memory_.intact();
  }

 private:
  int count_;
  Fenced memory_;
};

}  // namespace redzones
