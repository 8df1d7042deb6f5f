// SPDX-License-Identifier: Apache-2.0
// In place of the CUDA kernels, of the CUDA runtime and of libtorch_cuda, so that the binding can
// be run on tensors of the CPU: the ops of csrc/cuda/ops.h call the CPU's kernels, after a look at
// what they were given. STAND_IN_ERROR=number makes each of them fail with that error.
#include <cstdlib>
#include <cstring>
#include <string>

#include "cpu/float_mode.h"
#include "cpu/target.h"
#include "cuda/ops.h"

namespace {

constexpr size_t kBytes = 1000;
int guards = 0;
char stream;  // its address is torch's current stream

cudaError_t check(void* workspace, cudaStream_t given) {
  if (guards != 1 || given != reinterpret_cast<cudaStream_t>(&stream)) return cudaErrorUnknown;
  if (reinterpret_cast<uintptr_t>(workspace) % 256) return cudaErrorMisalignedAddress;
  std::memset(workspace, 0xff, kBytes);
  const char* error = std::getenv("STAND_IN_ERROR");
  return error ? cudaError_t(std::stoi(error)) : cudaSuccess;
}

template <class Params>
cudaError_t run(void (*kernel)(const Params&, int64_t, int64_t), const Params& params, int64_t rows,
                void* workspace, cudaStream_t given) {
  const spec_decode_ops::FloatMode to_nearest;
  const cudaError_t error = check(workspace, given);
  if (error == cudaSuccess) kernel(params, 0, rows);
  return error;
}

}  // namespace

namespace spec_decode_ops {
namespace cuda {

size_t sample_workspace(const SampleParams&, int64_t, Algorithm) { return kBytes; }
size_t filter_workspace(const FilterParams&, int64_t, Algorithm) { return kBytes; }
size_t verify_workspace(const VerifyParams&, int64_t, Algorithm) { return kBytes; }
size_t logprobs_workspace(const LogprobParams&, int64_t, Algorithm) { return kBytes; }
size_t accept_workspace(const AcceptParams&, int64_t) { return kBytes; }

cudaError_t sample(const SampleParams& params, int64_t rows, Algorithm, void* workspace,
                   cudaStream_t given) {
  return run(target().sample, params, rows, workspace, given);
}
cudaError_t filter_logits(const FilterParams& params, int64_t rows, Algorithm algorithm,
                          void* workspace, cudaStream_t given) {
  // How a test sees which way was asked for.
  if (const char* wanted = std::getenv("STAND_IN_ALGORITHM")) {
    if (int(algorithm) != std::stoi(wanted)) return cudaErrorInvalidValue;
  }
  return run(target().filter_logits, params, rows, workspace, given);
}
cudaError_t verify(const VerifyParams& params, int64_t rows, Algorithm, void* workspace,
                   cudaStream_t given) {
  return run(target().verify, params, rows, workspace, given);
}
cudaError_t logprobs(const LogprobParams& params, int64_t rows, Algorithm, void* workspace,
                     cudaStream_t given) {
  return run(target().logprobs, params, rows, workspace, given);
}
cudaError_t accept(const AcceptParams& params, int64_t rows, void* workspace, cudaStream_t given) {
  return run(target().accept, params, rows, workspace, given);
}

}  // namespace cuda
}  // namespace spec_decode_ops

extern "C" {

int aoti_torch_create_cuda_guard(int32_t, void** guard) {
  *guard = &guards;
  ++guards;
  return 0;
}
int aoti_torch_delete_cuda_guard(void*) {
  --guards;
  return 0;
}
int aoti_torch_get_current_cuda_stream(int32_t, void** current) {
  *current = &stream;
  return 0;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice ? "no kernel image" : "another error";
}
cudaError_t cudaGetDevice(int* device) {
  *device = 3;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  *value = device != 3 ? 0 : attribute == cudaDevAttrComputeCapabilityMajor ? 7 : 5;
  return cudaSuccess;
}
}
