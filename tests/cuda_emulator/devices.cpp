// SPDX-License-Identifier: Apache-2.0
// Device properties as the runtime reports them. The figures are those of the CUDA programming
// guide's table of compute capabilities; only the number of multiprocessors is our own.
#include "devices.h"

#include <cuda_runtime_api.h>

#include <iterator>
#include <string>

#include "cudart.h"
#include "violations.h"

namespace {

using cuda_emulator::device;
using cuda_emulator::Device;
using cuda_emulator::fail;
using cuda_emulator::record_violation;

constexpr size_t kKilobyte = 1024;
constexpr Device kDevices[] = {
    {80, 163 * kKilobyte, 164 * kKilobyte, 2048, 32, 40960 * kKilobyte},
    {86, 99 * kKilobyte, 100 * kKilobyte, 1536, 16, 6144 * kKilobyte},
    {89, 99 * kKilobyte, 100 * kKilobyte, 1536, 24, 49152 * kKilobyte},
    {90, 227 * kKilobyte, 228 * kKilobyte, 2048, 32, 51200 * kKilobyte},
    {75, 64 * kKilobyte, 64 * kKilobyte, 1024, 16, 4096 * kKilobyte},
};

int count = std::size(kDevices);
int current = 0;
int processors = 4;

}  // namespace

int cuda_emulator::device_count() { return count; }

const Device* cuda_emulator::device(int index) {
  if (index == -1) index = current;
  return index >= 0 && index < count ? &kDevices[index] : nullptr;
}

int cuda_emulator::current_device() { return current; }

bool cuda_emulator::set_current_device(int index) {
  if (index < 0 || index >= count) return false;
  current = index;
  return true;
}

int devices_select(int capability) {
  count = capability ? std::size(kDevices) : 0;
  for (int i = 0; i < count; ++i) {
    if (kDevices[i].capability == capability) return cuda_emulator::set_current_device(i);
  }
  return !capability;
}

void devices_set_processors(int number) { processors = number; }

extern "C" {

cudaError_t cudaGetDeviceCount(int* devices) {
  *devices = count;
  return count ? cudaSuccess : fail(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* index) {
  if (!count) return fail(cudaErrorNoDevice);
  *index = current;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  if (!count) return fail(cudaErrorNoDevice);
  return cuda_emulator::set_current_device(index) ? cudaSuccess : fail(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (!count) return fail(cudaErrorNoDevice);
  const Device* asked = device(index);
  if (!asked) return fail(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = asked->capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = asked->capability % 10;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = processors;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      *value = 1024;
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = 64;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = 2147483647;
      break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 * kKilobyte;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(asked->shared_bytes_per_block);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = int(asked->shared_bytes_per_processor);
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = kKilobyte;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = asked->threads_per_processor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = asked->blocks_per_processor;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = 65536;
      break;
    case cudaDevAttrL2CacheSize:
      *value = int(asked->l2_bytes);
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    default:
      record_violation("cudaDeviceGetAttribute: the stand-in runtime does not know attribute " +
                       std::to_string(int(attribute)));
      return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = count ? CUDART_VERSION : 0;
  return cudaSuccess;
}
}
