// SPDX-License-Identifier: Apache-2.0
// What a CUDA build of torch would provide through its stable C interface: the caller's stream and
// device guards. Linked into the library itself, so that it comes before a CPU torch's own.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "cudart.h"
#include "devices.h"
#include "violations.h"

namespace {

using cuda_emulator::current_device;
using cuda_emulator::record_violation;
using cuda_emulator::set_current_device;

constexpr AOTITorchError kSuccess = 0, kFailure = 1;

struct Guard {
  int device_before;
};

Guard* guard_of(void* handle) { return static_cast<Guard*>(handle); }

// A CPU tensor's index, -1, is the current device's.
AOTITorchError change_device(int index) {
  if (index == -1) index = current_device();
  return set_current_device(index) ? kSuccess : kFailure;
}

template <class Handle>
AOTITorchError create_guard(int index, Handle* handle) {
  const int before = current_device();
  if (change_device(index) != kSuccess) return kFailure;
  *handle = reinterpret_cast<Handle>(new Guard{before});
  cuda_emulator::change_guards(+1);
  return kSuccess;
}

AOTITorchError delete_guard(void* handle) {
  const Guard* guard = guard_of(handle);
  set_current_device(guard->device_before);
  cuda_emulator::change_guards(-1);
  delete guard;
  return kSuccess;
}

}  // namespace

extern "C" {

AOTITorchError aoti_torch_create_device_guard(int32_t index, DeviceGuardHandle* guard) {
  return create_guard(index, guard);
}
AOTITorchError aoti_torch_delete_device_guard(DeviceGuardHandle guard) {
  return delete_guard(guard);
}
AOTITorchError aoti_torch_device_guard_set_index(DeviceGuardHandle, int32_t index) {
  return change_device(index);
}
AOTITorchError aoti_torch_get_current_device_index(int32_t* index) {
  *index = current_device();
  return cuda_emulator::device_count() ? kSuccess : kFailure;
}

AOTITorchError aoti_torch_get_current_stream(int32_t, StreamHandle* stream) {
  *stream = reinterpret_cast<StreamHandle>(cuda_emulator::current_stream());
  return kSuccess;
}
AOTITorchError aoti_torch_delete_stream(StreamHandle) { return kSuccess; }
AOTITorchError aoti_torch_stream_id(StreamHandle stream, int64_t* id) {
  *id = reinterpret_cast<int64_t>(stream);
  return kSuccess;
}
AOTITorchError torch_stream_native_handle(StreamHandle stream, void** handle) {
  *handle = stream;
  return kSuccess;
}

struct CUDAGuardOpaque;
AOTITorchError aoti_torch_create_cuda_guard(int32_t index, CUDAGuardOpaque** guard) {
  return create_guard(index, guard);
}
AOTITorchError aoti_torch_delete_cuda_guard(CUDAGuardOpaque* guard) { return delete_guard(guard); }
AOTITorchError aoti_torch_cuda_guard_set_index(CUDAGuardOpaque*, int32_t index) {
  return change_device(index);
}
AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  *stream = cuda_emulator::current_stream();
  return kSuccess;
}

// The caching allocator's raw interface would hide a workspace from the redzones.
AOTITorchError aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t, void** p) {
  record_violation("device memory was allocated past torch's tensors");
  *p = nullptr;
  return kFailure;
}
}
