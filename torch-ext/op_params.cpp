// SPDX-License-Identifier: Apache-2.0
#include "op_params.h"

#include <torch/csrc/stable/ops.h>

#include <array>
#include <limits>

namespace spec_decode_ops {
namespace {

using torch::headeronly::ScalarType;

// Logits [V] are one row.
Logits rows_of(const TensorArgs& args, const Tensor& logits) {
  return args.logits(logits, "logits", logits.dim() == 1 ? 1 : 2, "[V] or [B, V]");
}

int64_t count(const Shape& leading) { return leading.dims ? leading.sizes[0] : 1; }

// The draft's rows beside a target of `leading` x (drafts + 1) rows; its vocabulary is its own.
Logits draft_of(const TensorArgs& args, const Tensor& draft, const char* name, const Shape& leading,
                int64_t drafts, const Origin& why) {
  const Shape shape = leading.with(drafts);
  const bool known = draft.dim() == shape.dims + 1;
  const Logits logits =
      args.logits(draft, name, shape.dims + 1, known ? "" : with_vocab(shape).c_str());
  Shape given;
  bool same = true;
  for (int64_t i = 0; i < shape.dims; ++i) {
    given = given.with(draft.size(i));
    same = same && given.sizes[i] == shape.sizes[i];
  }
  if (!same) {
    args.fail(name, "of shape " + with_vocab(given), with_vocab(shape) + " (" + why.text() + ")");
  }
  return logits;
}

// Python names rules, so that only a direct call can have one that is not there.
Rule rule_of(const TensorArgs& args, int64_t rule, Rule last) {
  if (rule < 0 || rule > int64_t(last)) {
    args.fail("rule", std::to_string(rule), "0 .. " + std::to_string(int64_t(last)));
  }
  return Rule(rule);
}

// On the CPU without a way through the dispatcher, which costs as much as a short call.
Tensor empty(const Tensor& leader, const Shape& shape, ScalarType type) {
  if (!leader.is_cpu()) {
    return torch::stable::new_empty(leader, {shape.sizes, size_t(shape.dims)}, type);
  }
  int64_t strides[3];
  int64_t stride = 1;
  for (int64_t i = shape.dims - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape.sizes[i] > 1 ? shape.sizes[i] : 1;
  }
  AtenTensorHandle made = nullptr;
  const int32_t dtype = torch::stable::detail::to<int32_t>(torch::stable::detail::from(type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(shape.dims, shape.sizes, strides, dtype,
                                                  aoti_torch_device_type_cpu(), 0, &made));
  return Tensor(made);
}

template <class T>
Tensor output(const Tensor& leader, const Shape& shape, ScalarType type, T** place) {
  const Tensor tensor = empty(leader, shape, type);
  *place = static_cast<T*>(tensor.mutable_data_ptr());
  return tensor;
}

// Whether there is noise, of which the call brought none. Greedy rows have none.
bool wants_seed(const FilterArgs& filter, const NoiseArgs& noise) {
  return !noise.seed && !noise.seed_tensor && (filter.temperature_tensor || filter.temperature > 0);
}

// Fills a tensor by one of torch's own ops.
template <size_t kArguments>
void fill(const char* op, const char* overload, std::array<StableIValue, kArguments> stack) {
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(op, overload, stack.data(), TORCH_ABI_VERSION));
  torch::stable::detail::to<Tensor>(stack[0]);  // the tensor once more, to be let go
}

template <class SeededCall>
void draw_seed_of(SeededCall& call, const Tensor& leader) {
  using torch::stable::detail::from;
  if (!call.wants_draw) return;
  call.drawn = empty(leader, {1}, ScalarType::Long);
  fill<3>("aten::random_", "to",
          {from(*call.drawn), from(std::numeric_limits<int64_t>::max()), from(std::nullopt)});
  call.params.noise.seed = {static_cast<const int64_t*>(call.drawn->const_data_ptr()), 0, 0};
}

}  // namespace

SampleCall prepare_sample(const Tensor& logits, const FilterArgs& filter, const NoiseArgs& noise,
                          int64_t algorithm) {
  const TensorArgs args("sample", logits, "logits");
  SampleCall call{};
  call.params.logits = rows_of(args, logits);
  call.leading = logits.dim() == 2 ? Shape{logits.size(0)} : Shape{};
  call.rows = count(call.leading);
  call.params.filter = args.filter(filter, call.rows);
  call.params.noise = args.noise(noise, call.rows);
  call.algorithm = args.algorithm(algorithm);
  call.wants_draw = wants_seed(filter, noise);
  return call;
}

FilterCall prepare_filter(const Tensor& logits, const FilterArgs& filter, int64_t algorithm) {
  const TensorArgs args("filter_logits", logits, "logits");
  FilterCall call{};
  call.params.logits = rows_of(args, logits);
  call.leading = logits.dim() == 2 ? Shape{logits.size(0)} : Shape{};
  call.rows = count(call.leading);
  call.params.filter = args.filter(filter, call.rows);
  call.algorithm = args.algorithm(algorithm);
  return call;
}

VerifyCall prepare_verify(const Tensor& target_logits, const MaybeTensor& draft_logits,
                          const Tensor& draft_tokens, const FilterArgs& filter,
                          const NoiseArgs& noise, int64_t rule, const MaybeTensor& words,
                          int64_t algorithm) {
  const TensorArgs args("verify", target_logits, "target_logits");
  VerifyCall call{};
  VerifyParams& p = call.params;
  p.target = args.logits(target_logits, "target_logits", 3, "[B, k + 1, V]");
  const int64_t rows = target_logits.size(0), drafts = target_logits.size(1) - 1;
  if (drafts < 0) args.fail("target_logits", "of 0 positions", "k + 1 of them for k draft tokens");
  const Origin why = {"target_logits", {rows, drafts + 1}};
  p.drafted = args.tokens(draft_tokens, "draft_tokens", {rows, drafts}, why);
  if (draft_logits) p.draft = draft_of(args, *draft_logits, "draft_logits", {rows}, drafts, why);
  p.filter = args.filter(filter, rows);
  p.noise = args.noise(noise, rows);
  p.rule = rule_of(args, rule, Rule::kCoupled);
  if (words) p.words = args.contiguous<int64_t>(*words, "words", {rows, drafts + 1}, why);
  call.leading = {rows};
  call.rows = rows;
  call.algorithm = args.algorithm(algorithm);
  call.wants_draw = !words && wants_seed(filter, noise);
  return call;
}

LogprobCall prepare_logprobs(const Tensor& logits, const Tensor& tokens, const FilterArgs& filter,
                             int64_t algorithm) {
  const TensorArgs args("logprobs", logits, "logits");
  LogprobCall call{};
  const int64_t dims = logits.dim() < 1 ? 1 : logits.dim() > 3 ? 3 : logits.dim();
  call.params.logits = args.logits(logits, "logits", dims, "[V], [B, V] or [B, positions, V]");
  for (int64_t i = 0; i + 1 < dims; ++i) call.leading = call.leading.with(logits.size(i));
  call.rows = count(call.leading);
  Tokens& each = call.params.tokens;
  each = args.tokens(tokens, "tokens", call.leading, Origin{"logits", call.leading});
  if (dims < 3) each = {each.ids, each.stride, 0, 1};
  call.params.filter = args.filter(filter, call.rows);
  call.algorithm = args.algorithm(algorithm);
  return call;
}

AcceptCall prepare_accept(const char* op, const Tensor& target_probs,
                          const MaybeTensor& draft_probs, const Tensor& draft_tokens,
                          const MaybeTensor& uniforms, bool normalized, int64_t rule,
                          bool may_be_batch) {
  const TensorArgs args(op, target_probs, "target_probs");
  const bool batch = may_be_batch && target_probs.dim() == 3;
  AcceptCall call{};
  AcceptParams& p = call.params;
  p.target = args.logits(target_probs, "target_probs", batch ? 3 : 2,
                         "[K + 1, V] or, where tensors are returned, [B, K + 1, V]");
  const Shape leading = batch ? Shape{target_probs.size(0)} : Shape{};
  const int64_t drafts = target_probs.size(batch ? 1 : 0) - 1;
  if (drafts < 0) args.fail("target_probs", "of 0 rows", "K + 1 of them for K draft tokens");
  const Origin why = {"target_probs", leading.with(drafts + 1)};
  p.drafted = args.tokens(draft_tokens, "draft_tokens", leading.with(drafts), why);
  if (draft_probs) {
    p.draft = draft_of(args, *draft_probs, "draft_probs", leading, drafts, why);
  }
  if (uniforms) {
    p.uniforms = args.contiguous<double>(*uniforms, "uniforms", leading.with(drafts + 1), why);
  }
  call.wants_draw = !uniforms;
  p.normalized = normalized;
  p.rule = rule_of(args, rule, Rule::kBlock);
  call.leading = leading;
  call.rows = count(leading);
  return call;
}

void draw_seed(SampleCall& call, const Tensor& logits) { draw_seed_of(call, logits); }

void draw_seed(VerifyCall& call, const Tensor& target_logits) { draw_seed_of(call, target_logits); }

void draw_uniforms(AcceptCall& call, const Tensor& target_probs) {
  using torch::stable::detail::from;
  if (!call.wants_draw) return;
  const Shape shape = call.leading.with(call.params.drafted.length + 1);
  call.drawn = empty(target_probs, shape, ScalarType::Double);
  fill<4>("aten::uniform_", "", {from(*call.drawn), from(0.0), from(1.0), from(std::nullopt)});
  call.params.uniforms = static_cast<const double*>(call.drawn->const_data_ptr());
}

Tensor token_output(SampleCall& call, const Tensor& logits) {
  return output(logits, call.leading, ScalarType::Long, &call.params.token);
}

Tensor logits_output(FilterCall& call, const Tensor& logits) {
  const Shape shape = call.leading.with(call.params.logits.vocab);
  return output(logits, shape, ScalarType::Float, &call.params.out);
}

std::tuple<Tensor, Tensor> logprob_outputs(LogprobCall& call, const Tensor& logits) {
  return {output(logits, call.leading, ScalarType::Float, &call.params.filtered),
          output(logits, call.leading, ScalarType::Float, &call.params.unfiltered)};
}

std::tuple<Tensor, Tensor> verdict_outputs(VerifyCall& call, const Tensor& target_logits) {
  const Shape positions = call.leading.with(call.params.drafted.length + 1);
  return {output(target_logits, call.leading, ScalarType::Long, &call.params.accept_length),
          output(target_logits, positions, ScalarType::Long, &call.params.out)};
}

std::tuple<Tensor, Tensor> verdict_outputs(AcceptCall& call, const Tensor& target_probs) {
  return {output(target_probs, call.leading, ScalarType::Long, &call.params.accept_length),
          output(target_probs, call.leading, ScalarType::Long, &call.params.next_token)};
}

}  // namespace spec_decode_ops
