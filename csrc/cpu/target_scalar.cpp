// SPDX-License-Identifier: Apache-2.0
// The scalar target: the kernels in plain C++, for any machine.
#include "cpu/target.h"
#include "cpu/vec_generic.h"

// The kernels use the vocabulary above.
#include "cpu/kernels-inl.h"

namespace spec_decode_ops {

const Target kScalar = {"scalar", sample, filter_logits, verify, accept, logprobs, largest_logit};

}  // namespace spec_decode_ops
