// SPDX-License-Identifier: Apache-2.0
// The neon target: the kernels in NEON, on aarch64 only, where every machine has it.
#if defined(__aarch64__)

#include "cpu/target.h"
#include "cpu/vec_neon.h"

// The kernels use the vocabulary above.
#include "cpu/kernels-inl.h"

namespace spec_decode_ops {

const Target kNeon = {"neon", sample, filter_logits, verify, accept, logprobs, largest_logit};

}  // namespace spec_decode_ops

#endif
