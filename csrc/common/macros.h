// SPDX-License-Identifier: Apache-2.0
// How a pure function is declared, so that one text serves every compiler and instruction set.
#pragma once

// Always inlined and with internal linkage: code that an AVX2 or AVX-512 region inlines is compiled
// for that region, and no copy of it can be picked by the linker for a machine without it.
#if defined(__CUDACC__)
#define HOST_DEVICE static __host__ __device__ __forceinline__
#define HOST_DEVICE_MEMBER __host__ __device__ __forceinline__
#else
#define HOST_DEVICE static inline __attribute__((always_inline))
#define HOST_DEVICE_MEMBER inline __attribute__((always_inline))
#endif
