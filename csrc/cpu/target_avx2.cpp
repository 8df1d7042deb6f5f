// SPDX-License-Identifier: Apache-2.0
// The avx2 target: the kernels compiled for what every machine with AVX2 has, on x86-64 only.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

// From here to the end of the file. What stands above is compiled for any machine: code of the
// standard library that the linker may share with other files must not need AVX2.
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")

#include "cpu/target.h"
#include "cpu/vec_avx2.h"

// The kernels use the vocabulary above.
#include "cpu/kernels-inl.h"

namespace spec_decode_ops {

const Target kAvx2 = {"avx2", sample, filter_logits, verify, accept, logprobs, largest_logit};

}  // namespace spec_decode_ops

#endif
