// SPDX-License-Identifier: Apache-2.0
// The stand-in CUDA runtime: what the library calls in place of libcudart, so that its own launch
// code runs. Launches are held to the limits of the current device and run by the emulator.
//
// It is always as if the call were being captured in a graph: what waits for the device, allocates
// or frees is refused, and recorded as a violation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace cuda_emulator {

// `error` after making it the one that cudaGetLastError will return.
cudaError_t fail(cudaError_t error);

// What torch gives as the caller's stream. Not the default one, so that a launch there is noticed.
cudaStream_t current_stream();

// Whether `what` is done as a library must: on the caller's stream, under a device guard.
void check_stream(const char* what, cudaStream_t stream);

// How many device guards are held.
void change_guards(int by);

}  // namespace cuda_emulator

extern "C" {
// Kernels of the translated module at `path` are for the device of this capability. Returns what
// went wrong, or nullptr.
const char* cudart_add_module(int capability, const char* path);

// What the PTX for this capability says of a kernel, by its mangled name.
void cudart_describe_kernel(int capability, const char* name, int max_threads,
                            size_t static_shared_bytes);

// Around each call of an op: no error is there before, none may be left by it.
void cudart_begin_call();
void cudart_end_call();
}
