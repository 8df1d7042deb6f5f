// SPDX-License-Identifier: Apache-2.0
// The avx512 target: the kernels compiled for AVX-512 F, BW and DQ, on x86-64 only.
#if defined(__x86_64__)

// Some releases of GCC take the undefined sources of unmasked AVX-512 instructions for a mistake.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

// From here to the end of the file. What stands above is compiled for any machine: code of the
// standard library that the linker may share with other files must not need AVX-512.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")

#include "cpu/target.h"
#include "cpu/vec_avx512.h"

// The kernels use the vocabulary above.
#include "cpu/kernels-inl.h"

namespace spec_decode_ops {

const Target kAvx512 = {"avx512", sample, filter_logits, verify, accept, logprobs, largest_logit};

}  // namespace spec_decode_ops

#endif
