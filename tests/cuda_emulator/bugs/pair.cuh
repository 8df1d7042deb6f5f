// SPDX-License-Identifier: Apache-2.0
// A kernel with one bug, and its right twin: NAME_bug and NAME_right, from template <bool kRight>.
#pragma once

#define PAIR(name)                                                                            \
  extern "C" __global__ void name##_bug(const float* x, float* y, unsigned* words, int n) {   \
    name<false>(x, y, words, n);                                                              \
  }                                                                                           \
  extern "C" __global__ void name##_right(const float* x, float* y, unsigned* words, int n) { \
    name<true>(x, y, words, n);                                                               \
  }

#define BODY             \
  template <bool kRight> \
  __device__ void
