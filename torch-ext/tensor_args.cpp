// SPDX-License-Identifier: Apache-2.0
#include "tensor_args.h"

#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "common/draw.h"
#include "common/mass.h"

namespace spec_decode_ops {
namespace {

using torch::headeronly::ScalarType;

constexpr int64_t kMaxVocab = int64_t(1) << kMaxVocabBits;

template <class T>
constexpr ScalarType kScalarType = ScalarType::Undefined;
template <>
constexpr ScalarType kScalarType<float> = ScalarType::Float;
template <>
constexpr ScalarType kScalarType<double> = ScalarType::Double;
template <>
constexpr ScalarType kScalarType<int64_t> = ScalarType::Long;

std::string name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Int:
      return "int32";
    default:
      return torch::headeronly::toString(type);
  }
}

std::string text_of(const int64_t* sizes, int64_t dims) {
  std::string text = "[";
  for (int64_t i = 0; i < dims; ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

bool has_shape(const Tensor& tensor, const Shape& shape) {
  bool same = tensor.dim() == shape.dims;
  for (int64_t i = 0; same && i < shape.dims; ++i) same = tensor.size(i) == shape.sizes[i];
  return same;
}

std::string device_text(const Tensor& tensor) {
  if (tensor.is_cpu()) return "cpu";
  return (tensor.is_cuda() ? "cuda:" : "device ") + std::to_string(tensor.get_device_index());
}

std::string describe(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return name_of(tensor.scalar_type()) + text_of(sizes.data(), int64_t(sizes.size())) + " on " +
         device_text(tensor);
}

bool same_device(const Tensor& a, const Tensor& b) {
  return a.is_cpu() == b.is_cpu() && a.is_cuda() == b.is_cuda() &&
         a.get_device_index() == b.get_device_index();
}

std::string rows_text(int64_t rows) {
  return rows == 1 ? "[1]" : "[1] or [" + std::to_string(rows) + "]";
}

constexpr const char* kFinite = "a finite number of float32";

bool is_finite(double value) { return std::fabs(value) <= double(kMaxFloat); }

// Whether float32 has it, and not as 0.
bool is_positive(double value) { return value > 0x1p-150 && is_finite(value); }

// requires int64 of up to 2 dimensions
Tokens ids(const Tensor& tensor) {
  const int64_t dims = tensor.dim();
  const int64_t* data = static_cast<const int64_t*>(tensor.const_data_ptr());
  if (dims == 0) return {data, 0, 0, 1};
  return {data, dims == 2 ? tensor.stride(0) : 0, tensor.stride(dims - 1), tensor.size(dims - 1)};
}

}  // namespace

std::string with_vocab(const Shape& leading) {
  std::string text = "[";
  for (int64_t i = 0; i < leading.dims; ++i) text += std::to_string(leading.sizes[i]) + ", ";
  return text + "V]";
}

std::string Origin::text() const { return std::string(name) + " is " + with_vocab(leading); }

TensorArgs::TensorArgs(const char* op, const Tensor& leader, const char* leader_name)
    : op_(op), leader_(leader), leader_name_(leader_name) {}

void TensorArgs::fail(const std::string& name, const std::string& given,
                      const std::string& wanted) const {
  throw std::runtime_error(std::string(op_) + ": " + name + " is " + given + ", wanted " + wanted);
}

void TensorArgs::require_strided(const Tensor& tensor, const char* name) const {
  int32_t layout = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(tensor.get(), &layout));
  if (layout == aoti_torch_layout_strided()) return;
  fail(name, describe(tensor) + " in a sparse layout", "a dense tensor");
}

void TensorArgs::require_same_device(const Tensor& tensor, const char* name) const {
  require_strided(tensor, name);
  if (same_device(tensor, leader_)) return;
  fail(name, describe(tensor),
       std::string("the device of ") + leader_name_ + ", " + device_text(leader_));
}

void TensorArgs::require(const Tensor& tensor, const char* name, ScalarType type,
                         const Shape& shape, const Origin& why) const {
  require_same_device(tensor, name);
  if (tensor.scalar_type() == type && has_shape(tensor, shape)) return;
  fail(name, describe(tensor),
       name_of(type) + " of shape " + text_of(shape.sizes, shape.dims) + " (" + why.text() + ")");
}

template <class T>
const T* TensorArgs::contiguous(const Tensor& tensor, const char* name, const Shape& shape,
                                const Origin& why) const {
  require(tensor, name, kScalarType<T>, shape, why);
  if (!tensor.is_contiguous()) fail(name, "not contiguous", "contiguous memory");
  return static_cast<const T*>(tensor.const_data_ptr());
}

template const double* TensorArgs::contiguous(const Tensor&, const char*, const Shape&,
                                              const Origin&) const;
template const int64_t* TensorArgs::contiguous(const Tensor&, const char*, const Shape&,
                                               const Origin&) const;

Logits TensorArgs::logits(const Tensor& tensor, const char* name, int64_t dims,
                          const char* shape) const {
  require_same_device(tensor, name);
  Logits logits{};
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      logits.dtype = DType::kFloat32;
      break;
    case ScalarType::Half:
      logits.dtype = DType::kFloat16;
      break;
    case ScalarType::BFloat16:
      logits.dtype = DType::kBFloat16;
      break;
    default:
      fail(name, describe(tensor), "float32, float16 or bfloat16");
  }
  if (tensor.dim() != dims) {
    fail(name, describe(tensor), std::string("shape ") + shape + ", V the vocabulary");
  }
  const int64_t vocab = tensor.size(dims - 1);
  if (vocab < 1 || vocab > kMaxVocab) {
    fail(name, describe(tensor), "a vocabulary of 1 to 1048576 tokens in the last dimension");
  }
  // An empty tensor may have any strides, whatever it came from.
  if (vocab > 1 && tensor.stride(dims - 1) != 1 && tensor.numel() > 0) {
    fail(name,
         describe(tensor) + " with stride " + std::to_string(tensor.stride(dims - 1)) +
             " in the last dimension",
         "stride 1 there; the other strides are free");
  }
  logits.vocab = vocab;
  logits.position_stride = dims >= 2 ? tensor.stride(dims - 2) : 0;
  logits.row_stride = dims >= 3 ? tensor.stride(dims - 3) : logits.position_stride;
  logits.data = tensor.const_data_ptr();
  return logits;
}

Tokens TensorArgs::tokens(const Tensor& tensor, const char* name, const Shape& shape,
                          const Origin& why) const {
  require(tensor, name, ScalarType::Long, shape, why);
  return ids(tensor);
}

Tokens TensorArgs::history(const Tensor& tensor, const char* name, int64_t rows) const {
  require_same_device(tensor, name);
  const int64_t dims = tensor.dim();
  if (tensor.scalar_type() != ScalarType::Long || dims < 1 || dims > 2 ||
      (dims == 2 && tensor.size(0) != rows)) {
    fail(name, describe(tensor), "int64 of shape [" + std::to_string(rows) + ", L] or [L]");
  }
  return ids(tensor);
}

template <class T>
PerRow<T> TensorArgs::per_row(T scalar, const MaybeTensor& tensor, const char* name,
                              int64_t rows) const {
  if (!tensor) return {nullptr, 0, scalar};
  require_same_device(*tensor, name);
  const int64_t entries = tensor->numel();
  const bool fits = tensor->dim() == 0 || (tensor->dim() == 1 && (entries == 1 || entries == rows));
  if (tensor->scalar_type() != kScalarType<T> || !fits) {
    fail(name, describe(*tensor), name_of(kScalarType<T>) + " of shape " + rows_text(rows));
  }
  const int64_t stride = entries == 1 ? 0 : tensor->stride(0);
  return {static_cast<const T*>(tensor->const_data_ptr()), stride, scalar};
}

PerRowReal TensorArgs::per_row_real(double scalar, const MaybeTensor& tensor, const char* name,
                                    int64_t rows) const {
  const MaybeTensor none;
  const bool single = tensor && tensor->scalar_type() == ScalarType::Float;
  if (tensor && !single && tensor->scalar_type() != ScalarType::Double) {
    fail(name, describe(*tensor), "float32 or float64 of shape " + rows_text(rows));
  }
  return {per_row<float>(0.0f, single ? tensor : none, name, rows),
          per_row<double>(scalar, single ? none : tensor, name, rows)};
}

void TensorArgs::require_meaning(const char* name, double value, bool has_meaning,
                                 const char* wanted) const {
  if (has_meaning) return;
  char given[32];
  std::snprintf(given, sizeof given, "%g", value);
  fail(name, given, wanted);
}

FilterSet TensorArgs::filter(const FilterArgs& args, int64_t rows) const {
  const double temperature = args.temperature, penalty = args.repetition_penalty;
  require_meaning("temperature", temperature,
                  is_positive(temperature) || (temperature <= 0 && is_finite(temperature)),
                  "a finite number of float32, not so small that it is 0 there");
  require_meaning("top_p", args.top_p, is_finite(args.top_p), kFinite);
  require_meaning("min_p", args.min_p, is_finite(args.min_p), kFinite);
  require_meaning("repetition_penalty", penalty, is_positive(penalty),
                  "a positive finite number of float32");
  FilterSet set{};
  set.temperature = per_row(float(temperature), args.temperature_tensor, "temperature", rows);
  set.top_k = per_row(args.top_k, args.top_k_tensor, "top_k", rows);
  set.top_p = per_row_real(args.top_p, args.top_p_tensor, "top_p", rows);
  set.min_p = per_row_real(args.min_p, args.min_p_tensor, "min_p", rows);
  set.penalty = per_row(float(penalty), args.penalty_tensor, "repetition_penalty", rows);
  if (args.prev_tokens) set.previous = history(*args.prev_tokens, "prev_tokens", rows);
  return set;
}

Noise TensorArgs::noise(const NoiseArgs& args, int64_t rows) const {
  if (args.offset < 0 || uint64_t(args.offset) >= kOffsetLimit) {
    fail("offset", std::to_string(args.offset), "0 <= offset < 2**60");
  }
  const bool seed_per_row = args.seed_tensor && args.seed_tensor->numel() != 1;
  return {per_row(args.seed.value_or(0), args.seed_tensor, "seed", rows),
          per_row(args.offset, args.offset_tensor, "offset", rows), !seed_per_row};
}

int TensorArgs::algorithm(int64_t place) const {
  if (place >= 0 && place < 3) return int(place);
  fail("algorithm", std::to_string(place), "0 (auto), 1 (sort) or 2 (select)");
}

}  // namespace spec_decode_ops
