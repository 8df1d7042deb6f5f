// SPDX-License-Identifier: Apache-2.0
// What was put on the stream, in order.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace cuda_emulator {

void log_launch(const std::string& what, dim3 grid, dim3 block, size_t shared_bytes);

}  // namespace cuda_emulator

extern "C" {
// Lines of a kernel's name as C++ has it, grid, block and bytes of dynamic shared memory, between
// tabs; cudaMemsetAsync and cudaMemcpyAsync are among them. Good until the next call.
const char* launch_log_read();
void launch_log_reset();
}
