// SPDX-License-Identifier: Apache-2.0
// The scalar target: the kernels in plain C++, for any machine.
#include "cpu/target.h"
#include "cpu/vec_scalar.h"

#include "cpu/accept-inl.h"
#include "cpu/filter-inl.h"
#include "cpu/sample-inl.h"
#include "cpu/verify-inl.h"

namespace spec_decode_ops {
namespace {

bool supported() { return true; }

}  // namespace

const Target kScalar = {"scalar", supported, sample, filter_logits, verify, accept};

}  // namespace spec_decode_ops
