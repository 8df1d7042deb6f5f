// SPDX-License-Identifier: Apache-2.0
// The one place where tensors are checked and turned into the kernels' params, for every device.
// An error says which op and argument, what was given and what is wanted, before any work is done.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "common/params.h"

namespace spec_decode_ops {

using torch::stable::Tensor;
using MaybeTensor = std::optional<Tensor>;
using MaybeSeed = std::optional<int64_t>;

// The sizes of up to 3 dimensions.
struct Shape {
  int64_t sizes[3];
  int64_t dims;
  Shape(std::initializer_list<int64_t> from = {}) : sizes{}, dims(0) {
    for (int64_t size : from) sizes[dims++] = size;
  }
  // requires dims < 3
  Shape with(int64_t size) const {
    Shape longer = *this;
    longer.sizes[longer.dims++] = size;
    return longer;
  }
};

// Where a wanted shape comes from: a tensor [..., V] of these dimensions in front.
struct Origin {
  const char* name;
  Shape leading;
  std::string text() const;  // only errors ask for it
};

// How errors write the shape of logits: [2, 3, V].
std::string with_vocab(const Shape& leading);

// A scalar of the schema and its tensor twin, which rules if it is there.
struct FilterArgs {
  double temperature;
  int64_t top_k;
  double top_p, min_p, repetition_penalty;
  const MaybeTensor &temperature_tensor, &top_k_tensor, &top_p_tensor, &min_p_tensor,
      &penalty_tensor, &prev_tokens;
};

struct NoiseArgs {
  MaybeSeed seed;
  int64_t offset;
  const MaybeTensor &seed_tensor, &offset_tensor;
};

// Checks the arguments of one op against `leader`, its first tensor, whose device they must share.
class TensorArgs {
 public:
  TensorArgs(const char* op, const Tensor& leader, const char* leader_name);

  // Float logits or probabilities of `dims` dimensions, up to 3; those in front count as 1. `shape`
  // is what to ask for.
  Logits logits(const Tensor& tensor, const char* name, int64_t dims, const char* shape) const;

  // int64 ids of this very shape, [rows, length], [length] or [].
  Tokens tokens(const Tensor& tensor, const char* name, const Shape& shape,
                const Origin& why) const;

  // int64 ids of shape [rows, length] or, for one row or shared by all of them, [length].
  Tokens history(const Tensor& tensor, const char* name, int64_t rows) const;

  // A place among "auto", "sort" and "select".
  int algorithm(int64_t place) const;

  FilterSet filter(const FilterArgs& args, int64_t rows) const;
  Noise noise(const NoiseArgs& args, int64_t rows) const;

  // Contiguous memory of this dtype and shape.
  template <class T>
  const T* contiguous(const Tensor& tensor, const char* name, const Shape& shape,
                      const Origin& why) const;

  [[noreturn]] void fail(const std::string& name, const std::string& given,
                         const std::string& wanted) const;

 private:
  void require_strided(const Tensor& tensor, const char* name) const;
  void require_same_device(const Tensor& tensor, const char* name) const;
  void require(const Tensor& tensor, const char* name, torch::headeronly::ScalarType type,
               const Shape& shape, const Origin& why) const;
  void require_meaning(const char* name, double value, bool has_meaning, const char* wanted) const;
  template <class T>
  PerRow<T> per_row(T scalar, const MaybeTensor& tensor, const char* name, int64_t rows) const;
  PerRowReal per_row_real(double scalar, const MaybeTensor& tensor, const char* name,
                          int64_t rows) const;

  const char* op_;
  const Tensor& leader_;
  const char* leader_name_;
};

}  // namespace spec_decode_ops
