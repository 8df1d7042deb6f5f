// SPDX-License-Identifier: Apache-2.0
// The cut of top-p and min-p over a whole row (common/prefix_filter.h). Without top-k no token has
// to be listed for it.
#pragma once

#include "common/gumbel.h"
#include "cpu/threshold-inl.h"

namespace spec_decode_ops {
namespace {

// The cut of min-p among the tokens before `cut`. A mass is asked for only near the logit that
// weighs min_p of the largest: those above pass, those below fail.
inline Cut min_p_cut(const Row& row, const MassScale& scale, const Filter& filter, const Cut& cut) {
  const float temperature = filter.temperature, largest = quotient(scale.max, temperature);
  const float least = filter.min_p > 0x1p-44 ? float(filter.min_p) : 0x1p-44f;
  const float halvings = least < 1.0f ? -1.442695f * log_normal(least) : 0.0f;
  const float rounding = magnitude(scale.max) * 1e-6f;
  const float fails = scale.max - (halvings + 1e-3f) / scale.rate - rounding;
  const float passes = scale.max - (halvings - 1e-3f) / scale.rate + rounding;
  const float first = class_of(fails > -kMaxFloat ? fails : -kMaxFloat, temperature);
  const uint64_t bound = min_p_bound(filter.min_p);
  Cut found{quotient(first, temperature), INT32_MAX};
  for_each_between(row, 0, first, passes, [&](int token, float x) {
    const float y = quotient(x, temperature);
    if (y >= found.value && y < largest && mass(x, scale) < bound && kept(y, token, cut)) {
      found = {y, 0};
    }
    return false;
  });
  return stricter(cut, found);
}

// requires T > 0 and the row's finite maximum, after scan_maxima
inline Cut row_cut(const Row& row, float x_max, const Filter& filter, Workspace& work) {
  const MassScale scale = mass_scale(x_max, filter.temperature);
  const Cut cut = has_top_p(filter) ? find_nucleus(row, scale, filter, work).cut : keep_all();
  return has_min_p(filter) ? min_p_cut(row, scale, filter, cut) : cut;
}

}  // namespace
}  // namespace spec_decode_ops
