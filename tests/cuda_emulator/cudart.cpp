// SPDX-License-Identifier: Apache-2.0
// Kernels: their registration by nvcc's host code, their attributes, and their launches.
#include "cudart.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "devices.h"
#include "emulator.h"
#include "launch_log.h"
#include "memory.h"
#include "violations.h"

namespace {

using cuda_emulator::device;
using cuda_emulator::Device;
using cuda_emulator::fail;
using cuda_emulator::record_violation;

constexpr size_t kSharedBytesUnasked = 48 * 1024;  // more only with cudaFuncSetAttribute
constexpr size_t kReservedSharedBytes = 1024;      // of each block, by the system

struct Kernel {
  std::string name;
  int max_threads = 1024;
  size_t static_shared_bytes = 0;
  size_t dynamic_shared_limit = 0;  // if it was raised
};

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};

std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> by_host_function;  // filled before main
  return by_host_function;
}

// By compute capability.
std::map<int, std::map<std::string, Kernel>> kernels;
std::map<int, std::vector<void*>> modules;
thread_local std::vector<Configuration> configurations;
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t lost_context = cudaSuccess;  // once a kernel has failed, everything does
int guards = 0;
char stream_of_the_caller;

// As it is on the current device; nullptr if there is none, or no such kernel in the host code.
Kernel* kernel_of(const void* function) {
  const auto name = names().find(function);
  if (name == names().end() || !device()) return nullptr;
  Kernel& kernel = kernels[device()->capability][name->second];
  kernel.name = name->second;
  return &kernel;
}

size_t dynamic_shared_limit(const Kernel& kernel) {
  const size_t unasked = kSharedBytesUnasked;
  return std::max(kernel.dynamic_shared_limit,
                  unasked - std::min(unasked, kernel.static_shared_bytes));
}

EmulatorLaunch translated(const Kernel& kernel) {
  const std::string symbol = "launch_" + kernel.name;
  for (void* module : modules[device()->capability]) {
    if (void* function = dlsym(module, symbol.c_str())) {
      return reinterpret_cast<EmulatorLaunch>(function);
    }
  }
  return nullptr;
}

// Neither empty nor too large.
bool has_launchable_shape(dim3 grid, dim3 block) {
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  return threads >= 1 && threads <= 1024 && block.z <= 64 && grid.x >= 1 && grid.x <= 2147483647u &&
         grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
}

cudaError_t check_launch(const Kernel* kernel, dim3 grid, dim3 block, size_t shared_bytes) {
  if (!device()) return cudaErrorNoDevice;
  if (lost_context != cudaSuccess) return lost_context;
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  if (!translated(*kernel)) return cudaErrorNoKernelImageForDevice;
  if (!has_launchable_shape(grid, block)) return cudaErrorInvalidConfiguration;
  if (block.x * block.y * block.z > unsigned(kernel->max_threads)) return cudaErrorInvalidValue;
  if (shared_bytes > dynamic_shared_limit(*kernel)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

void check_stream(const std::string& what, cudaStream_t stream) {
  if (stream != cuda_emulator::current_stream()) {
    record_violation(what + ": not on the caller's stream");
  }
  if (guards == 0) record_violation(what + ": no device guard is held");
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                   cudaStream_t stream) {
  const Kernel* kernel = kernel_of(function);
  const cudaError_t refused = check_launch(kernel, grid, block, shared_bytes);
  if (refused != cudaSuccess) return fail(refused);
  check_stream(kernel->name, stream);
  cuda_emulator::log_launch(kernel->name, grid, block, shared_bytes);
  const unsigned blocks[3] = {grid.x, grid.y, grid.z}, threads[3] = {block.x, block.y, block.z};
  const cuda_emulator::DeviceAccess access;
  try {
    translated (*kernel)(blocks, threads, shared_bytes, args);
  } catch (const std::exception& violation) {
    record_violation(violation.what());
    return fail(lost_context = cudaErrorIllegalAddress);
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t cuda_emulator::fail(cudaError_t error) { return last_error = error; }

cudaStream_t cuda_emulator::current_stream() {
  return reinterpret_cast<cudaStream_t>(&stream_of_the_caller);
}

void cuda_emulator::change_guards(int by) { guards += by; }

void cuda_emulator::check_stream(const char* what, cudaStream_t stream) {
  ::check_stream(what, stream);
}

const char* cudart_add_module(int capability, const char* path) {
  void* module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!module) return dlerror();
  modules[capability].push_back(module);
  return nullptr;
}

void cudart_describe_kernel(int capability, const char* name, int max_threads,
                            size_t static_shared_bytes) {
  Kernel& kernel = kernels[capability][name];
  kernel.max_threads = max_threads;
  kernel.static_shared_bytes = static_shared_bytes;
}

void cudart_begin_call() {
  last_error = lost_context = cudaSuccess;
  guards = 0;
}

void cudart_end_call() {
  if (last_error != cudaSuccess && lost_context == cudaSuccess) {
    record_violation(std::string("an error was left behind: ") + cudaGetErrorString(last_error));
  }
  if (guards != 0) record_violation("a device guard was not given back");
}

extern "C" {

// ---- What nvcc's host code calls ----

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  names()[host_function] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared_bytes, cudaStream_t stream) {
  return launch(kernel, grid, block, args, shared_bytes, stream);
}

// ---- The public calls ----

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args,
                             size_t shared_bytes, cudaStream_t stream) {
  return launch(function, grid, block, args, shared_bytes, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* function, void** args) {
  for (unsigned i = 0; i < how->numAttrs; ++i) {
    record_violation("cudaLaunchKernelExC: the stand-in runtime does not know launch attribute " +
                     std::to_string(int(how->attrs[i].id)));
  }
  return launch(function, how->gridDim, how->blockDim, args, how->dynamicSmemBytes, how->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const Kernel* kernel = kernel_of(function);
  if (!device()) return fail(cudaErrorNoDevice);
  if (!kernel) return fail(cudaErrorInvalidDeviceFunction);
  if (!translated(*kernel)) return fail(cudaErrorNoKernelImageForDevice);
  *attributes = {};
  attributes->sharedSizeBytes = kernel->static_shared_bytes;
  attributes->maxThreadsPerBlock = kernel->max_threads;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = device()->capability;
  attributes->maxDynamicSharedSizeBytes = int(dynamic_shared_limit(*kernel));
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  Kernel* kernel = kernel_of(function);
  if (!device()) return fail(cudaErrorNoDevice);
  if (!kernel) return fail(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  const size_t wanted = size_t(std::max(value, 0)) + kernel->static_shared_bytes;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      wanted > device()->shared_bytes_per_block) {
    return fail(cudaErrorInvalidValue);
  }
  kernel->dynamic_shared_limit = value;
  return cudaSuccess;
}

// Bounded by threads, blocks and shared memory; registers are not known here.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, size_t shared_bytes,
                                                                   unsigned) {
  const Kernel* kernel = kernel_of(function);
  if (!device()) return fail(cudaErrorNoDevice);
  if (!kernel || threads < 1) return fail(cudaErrorInvalidValue);
  const size_t shared = kernel->static_shared_bytes + shared_bytes + kReservedSharedBytes;
  *blocks = std::min({device()->threads_per_processor / ((threads + 31) / 32 * 32),
                      device()->blocks_per_processor,
                      int(device()->shared_bytes_per_processor / shared)});
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                shared_bytes, 0);
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = lost_context != cudaSuccess ? lost_context : last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  return lost_context != cudaSuccess ? lost_context : last_error;
}
}
