// SPDX-License-Identifier: Apache-2.0
// Chunks computed by a GPU's code: one block a chunk, launched from ptx.cpp.
#include "bits/chunks.h"

#define KERNEL(name)                                                                               \
  extern "C" __global__ void bits_##name(unsigned long long* sum, uint64_t first, uint64_t size) { \
    atomicAdd(sum,                                                                                 \
              bits::sum_checks<bits::hash_##name>(first + threadIdx.x, first + size, blockDim.x)); \
  }
PURE_FUNCTIONS(KERNEL)
