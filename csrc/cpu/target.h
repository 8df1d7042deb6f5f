// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set, and the choice among those this machine can run.
//
// Every target gives the same bits. A kernel takes a range of rows, so that whoever calls it may
// share the rows out over threads; it may throw std::bad_alloc.
#pragma once

#include <string>

#include "common/params.h"

namespace spec_decode_ops {

struct Target {
  const char* name;
  void (*sample)(const SampleParams&, int64_t first_row, int64_t last_row);
  void (*filter_logits)(const FilterParams&, int64_t first_row, int64_t last_row);
  void (*verify)(const VerifyParams&, int64_t first_row, int64_t last_row);
  void (*accept)(const AcceptParams&, int64_t first_row, int64_t last_row);
  void (*logprobs)(const LogprobParams&, int64_t first_row, int64_t last_row);
  float (*largest)(const Logits&, int64_t row);  // what reading a row costs: for benchmarks
};

extern const Target kScalar;
#if defined(__x86_64__)
extern const Target kAvx2, kAvx512;
#elif defined(__aarch64__)
extern const Target kNeon;
#endif

// The target that runs: the best of this machine, unless SPEC_DECODE_OPS_CPU_TARGET named another
// at the first call or `force_target` has since. Both throw std::runtime_error on a name that this
// machine has not.
const Target& target();
void force_target(const std::string& name);  // "": the best. The op is `cpu_target`

}  // namespace spec_decode_ops
