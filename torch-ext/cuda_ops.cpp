// SPDX-License-Identifier: Apache-2.0
// The ops on an NVIDIA GPU: on the device of the first tensor, on torch's current stream there, in
// a workspace from torch's allocator. Nothing waits for the device.
#if !defined(USE_CUDA)
#define USE_CUDA  // torch's headers: declare what libtorch_cuda has
#endif
#include <cuda_runtime_api.h>
#include <torch/csrc/stable/ops.h>

#include <stdexcept>

#include "cuda/ops.h"
#include "op_params.h"
#include "torch_binding.h"

// Weak, so that the library loads where torch has no CUDA, and serves the CPU there.
#pragma weak aoti_torch_create_cuda_guard
#pragma weak aoti_torch_delete_cuda_guard
#pragma weak aoti_torch_get_current_cuda_stream

namespace spec_decode_ops {
namespace {

using cuda::Algorithm;

// TensorArgs::algorithm counts in this order.
static_assert(int(Algorithm::kAuto) == 0 && int(Algorithm::kSort) == 1 &&
              int(Algorithm::kSelect) == 2);

// What the kernels ask of their workspace. Torch's memory has it unless its allocator was replaced.
constexpr int64_t kAlignment = 256;

// The device of a tensor is the current one while this lives.
class OnDeviceOf {
 public:
  OnDeviceOf(const char* op, const Tensor& tensor) : index_(tensor.get_device_index()) {
    if (!aoti_torch_create_cuda_guard) {
      throw std::runtime_error(std::string(op) + ": this torch has no CUDA");
    }
    TORCH_ERROR_CODE_CHECK(aoti_torch_create_cuda_guard(index_, &guard_));
  }
  ~OnDeviceOf() { aoti_torch_delete_cuda_guard(guard_); }
  OnDeviceOf(const OnDeviceOf&) = delete;
  OnDeviceOf& operator=(const OnDeviceOf&) = delete;

  cudaStream_t stream() const {
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(index_, &stream));
    return static_cast<cudaStream_t>(stream);
  }

 private:
  const int32_t index_;
  CUDAGuardHandle guard_ = nullptr;
};

bool means_unsupported(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
         error == cudaErrorUnsupportedPtxVersion;
}

[[noreturn]] void fail(const char* op, cudaError_t error) {
  cudaGetLastError();  // or torch would find it, and blame a launch of its own
  std::string text = std::string(op) + ": CUDA error: " + cudaGetErrorString(error);
  int device = 0, major = 0, minor = 0;
  if (means_unsupported(error) && cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess) {
    text += " (this GPU has compute capability " + std::to_string(major) + "." +
            std::to_string(minor) + ", wanted 8.0 or newer, and a driver that knows CUDA " +
            std::to_string(CUDART_VERSION / 1000) + ")";
  }
  throw std::runtime_error(text);
}

// launch(workspace, stream), with that many bytes of workspace.
template <class Bytes, class Launch>
void run(const char* op, const Tensor& leader, int64_t rows, Bytes bytes, Launch launch) {
  if (rows == 0) return;
  const OnDeviceOf device(op, leader);
  const Tensor memory = torch::stable::new_empty(leader, {int64_t(bytes()) + kAlignment},
                                                 torch::headeronly::ScalarType::Byte);
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory.mutable_data_ptr());
  void* workspace = reinterpret_cast<void*>((start + kAlignment - 1) / kAlignment * kAlignment);
  const cudaError_t error = launch(workspace, device.stream());
  if (error != cudaSuccess) fail(op, error);
}

TwoTensors run_accept(const char* op, const Tensor& target_probs, AcceptCall call) {
  const TwoTensors verdict = verdict_outputs(call, target_probs);
  run(
      op, target_probs, call.rows, [&] { return cuda::accept_workspace(call.params, call.rows); },
      [&](void* workspace, cudaStream_t stream) {
        return cuda::accept(call.params, call.rows, workspace, stream);
      });
  return verdict;
}

}  // namespace

Tensor sample_cuda(SAMPLE_ARGUMENTS) {
  SampleCall call = prepare_sample(logits, FILTER, NOISE, algorithm);
  draw_seed(call, logits);
  const Algorithm way = Algorithm(call.algorithm);
  const Tensor token = token_output(call, logits);
  run(
      "sample", logits, call.rows,
      [&] { return cuda::sample_workspace(call.params, call.rows, way); },
      [&](void* workspace, cudaStream_t stream) {
        return cuda::sample(call.params, call.rows, way, workspace, stream);
      });
  return token;
}

Tensor filter_logits_cuda(FILTER_LOGITS_ARGUMENTS) {
  FilterCall call = prepare_filter(logits, FILTER, algorithm);
  const Algorithm way = Algorithm(call.algorithm);
  const Tensor out = logits_output(call, logits);
  run(
      "filter_logits", logits, call.rows,
      [&] { return cuda::filter_workspace(call.params, call.rows, way); },
      [&](void* workspace, cudaStream_t stream) {
        return cuda::filter_logits(call.params, call.rows, way, workspace, stream);
      });
  return out;
}

TwoTensors verify_cuda(VERIFY_ARGUMENTS) {
  VerifyCall call = prepare_verify(target_logits, draft_logits, draft_tokens, FILTER, NOISE, rule,
                                   words, algorithm);
  draw_seed(call, target_logits);
  const Algorithm way = Algorithm(call.algorithm);
  const TwoTensors verdict = verdict_outputs(call, target_logits);
  run(
      "verify", target_logits, call.rows,
      [&] { return cuda::verify_workspace(call.params, call.rows, way); },
      [&](void* workspace, cudaStream_t stream) {
        return cuda::verify(call.params, call.rows, way, workspace, stream);
      });
  return verdict;
}

TwoTensors logprobs_cuda(LOGPROBS_ARGUMENTS) {
  LogprobCall call = prepare_logprobs(logits, tokens, FILTER, algorithm);
  const Algorithm way = Algorithm(call.algorithm);
  const TwoTensors found = logprob_outputs(call, logits);
  run(
      "logprobs", logits, call.rows,
      [&] { return cuda::logprobs_workspace(call.params, call.rows, way); },
      [&](void* workspace, cudaStream_t stream) {
        return cuda::logprobs(call.params, call.rows, way, workspace, stream);
      });
  return found;
}

TwoTensors verify_greedy_tensors_cuda(VERIFY_GREEDY_ARGUMENTS) {
  return run_accept("verify_greedy", target_probs,
                    prepare_accept("verify_greedy", target_probs, MaybeTensor(), draft_tokens,
                                   MaybeTensor(), false, kTokenRule, true));
}

TwoTensors accept_tensors_cuda(ACCEPT_ARGUMENTS) {
  AcceptCall call = prepare_accept("accept", target_probs, draft_probs, draft_tokens, uniforms,
                                   normalized, rule, true);
  draw_uniforms(call, target_probs);
  return run_accept("accept", target_probs, call);
}

}  // namespace spec_decode_ops
