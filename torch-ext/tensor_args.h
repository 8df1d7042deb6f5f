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

// A scalar of the schema and its tensor twin, which rules if it is there.
struct FilterArgs {
  double temperature;
  int64_t top_k;
  double top_p, min_p, repetition_penalty;
  const MaybeTensor &temperature_tensor, &top_k_tensor, &top_p_tensor, &min_p_tensor,
      &penalty_tensor, &prev_tokens;
};

struct NoiseArgs {
  int64_t seed, offset;
  const MaybeTensor &seed_tensor, &offset_tensor;
};

// Checks the arguments of one op against `leader`, its first tensor, whose device they must share.
class TensorArgs {
 public:
  TensorArgs(const char* op, const Tensor& leader, const char* leader_name);

  // Float logits or probabilities of `dims` dimensions, up to 3; those in front count as 1.
  Logits logits(const Tensor& tensor, const char* name, int64_t dims) const;

  // int64 ids of shape [rows, length] or, for one row or shared by all of them, [length].
  Tokens tokens(const Tensor& tensor, const char* name, int64_t rows) const;

  FilterSet filter(const FilterArgs& args, int64_t rows) const;
  Noise noise(const NoiseArgs& args, int64_t rows) const;

  void require_shape(const Tensor& tensor, const char* name, std::initializer_list<int64_t> shape,
                     const std::string& why) const;

  // requires what was checked to be contiguous memory of this dtype
  template <class T>
  const T* contiguous(const Tensor& tensor, const char* name) const;

  [[noreturn]] void fail(const std::string& name, const std::string& given,
                         const std::string& wanted) const;

 private:
  void require_same_device(const Tensor& tensor, const char* name) const;
  template <class T>
  PerRow<T> per_row(T scalar, const MaybeTensor& tensor, const char* name, int64_t rows) const;
  PerRowReal per_row_real(double scalar, const MaybeTensor& tensor, const char* name,
                          int64_t rows) const;

  const char* op_;
  const Tensor& leader_;
  const char* leader_name_;
};

}  // namespace spec_decode_ops
