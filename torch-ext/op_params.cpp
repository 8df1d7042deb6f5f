// SPDX-License-Identifier: Apache-2.0
#include "op_params.h"

#include <torch/csrc/stable/ops.h>

#include <vector>

namespace spec_decode_ops {
namespace {

using torch::headeronly::ScalarType;

Tensor new_tensor(const Tensor& like, const std::vector<int64_t>& shape, ScalarType type) {
  return torch::stable::new_empty(like, shape, type);
}

template <class T>
T* data(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// [vocab] logits are one row.
int64_t row_dims(const TensorArgs& args, const Tensor& logits) {
  if (logits.dim() == 1 || logits.dim() == 2) return logits.dim();
  args.logits(logits, "logits", 2);
  return 2;
}

std::string joined(int64_t rows, int64_t positions) {
  return "[" + std::to_string(rows) + ", " + std::to_string(positions) + ", V]";
}

}  // namespace

SampleCall prepare_sample(const Tensor& logits, const FilterArgs& filter, const NoiseArgs& noise) {
  const TensorArgs args("sample", logits, "logits");
  const int64_t dims = row_dims(args, logits);
  const int64_t rows = dims == 2 ? logits.size(0) : 1;
  SampleCall call{};
  call.rows = rows;
  call.params = {nullptr, args.logits(logits, "logits", dims), args.filter(filter, rows),
                 args.noise(noise, rows)};
  call.token = new_tensor(logits, dims == 2 ? std::vector<int64_t>{rows} : std::vector<int64_t>{},
                          ScalarType::Long);
  call.params.token = data<int64_t>(call.token);
  return call;
}

FilterCall prepare_filter(const Tensor& logits, const FilterArgs& filter) {
  const TensorArgs args("filter_logits", logits, "logits");
  const int64_t dims = row_dims(args, logits);
  const int64_t rows = dims == 2 ? logits.size(0) : 1;
  FilterCall call{};
  call.rows = rows;
  call.params = {nullptr, args.logits(logits, "logits", dims), args.filter(filter, rows)};
  const int64_t vocab = call.params.logits.vocab;
  call.out = new_tensor(logits,
                        dims == 2 ? std::vector<int64_t>{rows, vocab} : std::vector<int64_t>{vocab},
                        ScalarType::Float);
  call.params.out = data<float>(call.out);
  return call;
}

VerifyCall prepare_verify(const Tensor& target_logits, const MaybeTensor& draft_logits,
                          const Tensor& draft_tokens, const FilterArgs& filter,
                          const NoiseArgs& noise, bool coupled, const MaybeTensor& words) {
  const TensorArgs args("verify", target_logits, "target_logits");
  VerifyCall call{};
  VerifyParams& p = call.params;
  p.target = args.logits(target_logits, "target_logits", 3);
  const int64_t rows = target_logits.size(0), drafts = target_logits.size(1) - 1;
  if (drafts < 0) args.fail("target_logits", "of 0 positions", "k + 1 of them for k draft tokens");
  args.require_shape(draft_tokens, "draft_tokens", {rows, drafts},
                     "target_logits is " + joined(rows, drafts + 1));
  p.drafted = args.tokens(draft_tokens, "draft_tokens", rows);
  if (draft_logits) {
    p.draft = args.logits(*draft_logits, "draft_logits", 3);
    if (draft_logits->size(0) != rows || draft_logits->size(1) != drafts) {
      args.fail("draft_logits", "of shape " + joined(draft_logits->size(0), draft_logits->size(1)),
                joined(rows, drafts) + ", as target_logits is " + joined(rows, drafts + 1));
    }
  }
  p.filter = args.filter(filter, rows);
  p.noise = args.noise(noise, rows);
  p.rule = coupled ? Rule::kCoupled : Rule::kToken;
  if (words) {
    args.require_shape(*words, "words", {rows, drafts + 1}, "one a position");
    p.words = args.contiguous<int64_t>(*words, "words");
  }
  call.rows = rows;
  call.accept_length = new_tensor(target_logits, {rows}, ScalarType::Long);
  call.out = new_tensor(target_logits, {rows, drafts + 1}, ScalarType::Long);
  p.accept_length = data<int64_t>(call.accept_length);
  p.out = data<int64_t>(call.out);
  return call;
}

AcceptParams prepare_accept(const char* op, const Tensor& target_probs,
                            const MaybeTensor& draft_probs, const Tensor& draft_tokens,
                            const Tensor* uniforms, bool normalized) {
  const TensorArgs args(op, target_probs, "target_probs");
  AcceptParams p{};
  p.target = args.logits(target_probs, "target_probs", 2);
  const int64_t drafts = target_probs.size(0) - 1;
  if (drafts < 0) args.fail("target_probs", "of 0 rows", "K + 1 of them for K draft tokens");
  const std::string given = "target_probs is [" + std::to_string(drafts + 1) + ", V]";
  args.require_shape(draft_tokens, "draft_tokens", {drafts}, given);
  p.drafted = args.tokens(draft_tokens, "draft_tokens", 1);
  if (draft_probs) {
    p.draft = args.logits(*draft_probs, "draft_probs", 2);
    if (draft_probs->size(0) != drafts) {
      args.fail("draft_probs", "of " + std::to_string(draft_probs->size(0)) + " rows",
                std::to_string(drafts) + ", as " + given);
    }
  }
  if (uniforms) {
    args.require_shape(*uniforms, "uniforms", {drafts + 1}, given);
    p.uniforms = args.contiguous<double>(*uniforms, "uniforms");
  }
  p.normalized = normalized;
  return p;
}

}  // namespace spec_decode_ops
