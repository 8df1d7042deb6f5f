// SPDX-License-Identifier: Apache-2.0
// The runtime's own work on memory, and all that a call captured in a graph may not do: to wait for
// the device, to allocate, to free, to move data to or from the host.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include "cudart.h"
#include "emulator.h"
#include "launch_log.h"
#include "memory.h"
#include "violations.h"

namespace {

using cuda_emulator::DeviceAccess;
using cuda_emulator::fail;
using cuda_emulator::is_accessible;

cudaError_t refuse(const char* function) {
  cuda_emulator::record_violation(std::string(function) + " cannot be captured in a graph");
  return fail(cudaErrorStreamCaptureUnsupported);
}

}  // namespace

// The library names each buffer that it carves out of one workspace.
extern "C" void spec_decode_ops_workspace_buffer(const void* p, size_t bytes) {
  memory_name_buffer(p, bytes, "workspace buffer");
}

extern "C" {

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  cuda_emulator::check_stream("cudaMemsetAsync", stream);
  if (bytes == 0) return cudaSuccess;
  if (!is_accessible(p, bytes, true, "cudaMemsetAsync")) return fail(cudaErrorIllegalAddress);
  cuda_emulator::log_launch("cudaMemsetAsync", dim3(1), dim3(1), 0);
  const DeviceAccess access;
  std::memset(p, value, bytes);
  emulator_mark_defined(p, bytes);
  return cudaSuccess;
}

// From device to device: the host's memory may have changed by the time a graph is replayed.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  cuda_emulator::check_stream("cudaMemcpyAsync", stream);
  if (bytes == 0) return cudaSuccess;
  if (!is_accessible(from, bytes, false, "cudaMemcpyAsync, the source") ||
      !is_accessible(to, bytes, true, "cudaMemcpyAsync, the destination")) {
    return fail(cudaErrorIllegalAddress);
  }
  cuda_emulator::log_launch("cudaMemcpyAsync", dim3(1), dim3(1), 0);
  const DeviceAccess access;
  std::memmove(to, from, bytes);
  emulator_mark_defined(to, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void*, int, size_t) { return refuse("cudaMemset"); }
cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind) { return refuse("cudaMemcpy"); }
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return refuse("cudaMemcpyToSymbol");
}
cudaError_t cudaMalloc(void**, size_t) { return refuse("cudaMalloc"); }
cudaError_t cudaFree(void*) { return refuse("cudaFree"); }
cudaError_t cudaMallocHost(void**, size_t) { return refuse("cudaMallocHost"); }
cudaError_t cudaFreeHost(void*) { return refuse("cudaFreeHost"); }
cudaError_t cudaMallocAsync(void**, size_t, cudaStream_t) { return refuse("cudaMallocAsync"); }
cudaError_t cudaFreeAsync(void*, cudaStream_t) { return refuse("cudaFreeAsync"); }
cudaError_t cudaDeviceSynchronize() { return refuse("cudaDeviceSynchronize"); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return refuse("cudaStreamSynchronize"); }
cudaError_t cudaStreamQuery(cudaStream_t) { return refuse("cudaStreamQuery"); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return refuse("cudaEventSynchronize"); }

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
}
