// SPDX-License-Identifier: Apache-2.0
// The mass of a strip (common/logprob.h), which is what a warp of a pass over rows holds.
#pragma once

#include "common/logprob.h"

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

static_assert(kStrip == kMassStrip, "a warp holds a strip");

// The warp's tokens relative to `max`, in every lane.
__device__ __forceinline__ StripMass strip_from(const float (&x)[kTokensPerThread], float max,
                                                float temperature) {
  const MassScale scale = strip_scale(max, temperature);
  uint32_t units = 0;
  int32_t rest = 0;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    const float e = weight(x[j], scale);
    units += uint32_t(mass_units(e));
    rest += mass_rest(e);
  }
  return {max, warp_mass(units, rest)};
}

// Relative to their own largest logit.
__device__ __forceinline__ StripMass strip_mass(const float (&x)[kTokensPerThread],
                                                float temperature) {
  float max = -kInfinity;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) max = fmaxf(max, x[j]);
  max = warp_max(max);
  if (uniform(max > -kInfinity && max < kInfinity)) return strip_from(x, max, temperature);
  uint32_t infinite = 0;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) infinite += x[j] == kInfinity;
  return {max, __reduce_add_sync(kAllLanes, infinite) * kMassOfMax};
}

// Leaves the mass of the warp's strip.
__device__ __forceinline__ void keep_strip(const RowGroup& group, const ChunkPlace& at,
                                           const StripMass& mass, StripMass* strips) {
  const int count = group.vocab_over(kStrip);
  if (at.strip < count && lane_of_thread() == 0) strips[at.id.row * count + at.strip] = mass;
}

}  // namespace cuda
}  // namespace spec_decode_ops
