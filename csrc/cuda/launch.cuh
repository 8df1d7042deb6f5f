// SPDX-License-Identifier: Apache-2.0
// Launches and their workspace.
#pragma once

#include "cuda/policy.cuh"

// A memory checker may define this; it is told of each buffer that is cut from a workspace.
extern "C" void spec_decode_ops_workspace_buffer(const void* buffer, size_t bytes)
    __attribute__((weak));

namespace spec_decode_ops {
namespace cuda {

// Cuts one allocation into buffers. Without a base it only counts. Buffers never touch, so that a
// checker sees the first byte past each.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}

  size_t bytes() const { return used_; }

  template <class T>
  T* take(int64_t count) {
    const size_t bytes = size_t(count) * sizeof(T);
    char* buffer = base_ ? base_ + used_ : nullptr;
    used_ += (bytes + kGap + kAlign - 1) / kAlign * kAlign;
    if (buffer && spec_decode_ops_workspace_buffer) spec_decode_ops_workspace_buffer(buffer, bytes);
    return reinterpret_cast<T*>(buffer);
  }

 private:
  static constexpr size_t kAlign = 256, kGap = 16;
  char* base_;
  size_t used_ = 0;
};

// Runs `kernel` on a grid of sequences, chunks and positions, unless it is empty.
struct Grid {
  int64_t sequences, chunks, positions;
};

template <class Params>
cudaError_t launch(void (*kernel)(Params), const Grid& grid, int threads, cudaStream_t stream,
                   const Params& params) {
  if (grid.sequences == 0 || grid.chunks == 0 || grid.positions == 0) return cudaSuccess;
  if (grid.sequences > INT32_MAX || grid.positions > 65535) return cudaErrorInvalidConfiguration;
  const dim3 blocks(unsigned(grid.sequences), unsigned(grid.chunks), unsigned(grid.positions));
  kernel<<<blocks, dim3(unsigned(threads)), 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace cuda
}  // namespace spec_decode_ops

// Leaves the calling function with the error of a step that failed.
#define RETURN_IF_FAILED(step)              \
  do {                                      \
    const cudaError_t error = (step);       \
    if (error != cudaSuccess) return error; \
  } while (false)
