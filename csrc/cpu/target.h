// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set, and the choice among those this machine can run.
//
// Every target gives the same bits. A kernel takes a range of rows, so that whoever calls it may
// share the rows out over threads; it may throw std::bad_alloc.
#pragma once

#include "common/params.h"

namespace spec_decode_ops {

struct Target {
  const char* name;
  void (*sample)(const SampleParams&, int64_t first_row, int64_t last_row);
  void (*filter_logits)(const FilterParams&, int64_t first_row, int64_t last_row);
  void (*verify)(const VerifyParams&, int64_t first_row, int64_t last_row);
  void (*accept)(const AcceptParams&, int64_t first_row, int64_t last_row);
};

extern const Target kScalar;
#if defined(__x86_64__)
extern const Target kAvx2, kAvx512;
#endif

// The best target of this machine, or the one that SPEC_DECODE_OPS_CPU_TARGET names; chosen at the
// first call. Throws std::runtime_error on a name that this machine has not.
const Target& target();

}  // namespace spec_decode_ops
