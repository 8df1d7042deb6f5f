// SPDX-License-Identifier: Apache-2.0
// Operations of a warp: who takes part, and whether all that were named do.
#include "state.h"

namespace emulator {
namespace {

// The source of a lane's value, by the PTX ISA's rules; not in range, a lane keeps its own.
uint32_t source_lane(Shuffle mode, uint32_t l, uint32_t b, uint32_t c, bool* in_range) {
  const uint32_t segment = c >> 8 & 31, bound = (l & segment) | (c & 31 & ~segment);
  uint32_t from = 0;
  b &= 31;
  switch (mode) {
    case Shuffle::kUp:
      *in_range = int(l) - int(b) >= int(bound);
      return l - b;
    case Shuffle::kDown:
      from = l + b;
      break;
    case Shuffle::kButterfly:
      from = l ^ b;
      break;
    case Shuffle::kIndex:
      from = (l & segment) | (b & ~segment);
      break;
  }
  *in_range = from <= bound;
  return from;
}

std::string lanes_text(uint32_t lanes) {
  std::string text;
  for (int l = 0; l < kLanes; ++l) {
    if (lanes >> l & 1) text += (text.empty() ? "" : " ") + std::to_string(l);
  }
  return text;
}

}  // namespace

uint32_t gather(Block& b, Warp& w, const uint32_t* members, int here, const char* text) {
  // Those who waited already have asked before; now those decide who have come since.
  const uint32_t come = w.active & ~w.gathering;
  const uint32_t mask = members[__builtin_ctz(come ? come : w.active)];
  uint32_t group = 0;
  for (int l = 0; l < kLanes; ++l) group |= uint32_t(members[l] == mask) << l;
  group &= w.active;
  if (group & ~mask) {
    fail(b, w, text, ("lanes outside their own mask: " + lanes_text(group & ~mask)).c_str());
  }
  const uint32_t exited = mask & w.exists & ~w.live;
  if (exited && (state().settings.checks & kCheckExitedLanes)) {
    fail(b, w, text, ("the mask names lanes that have exited: " + lanes_text(exited)).c_str());
  }
  if (group != w.active) {
    w.resume(w.active & ~group, here);
    w.activate(group);
  }
  if (mask & w.live & ~group) {
    w.gathering |= group;
    w.resume(group, here);
    return 0;
  }
  w.gathering &= ~group;
  return group;
}

void sync_warp(Block&, Warp& w) { w.synced = ++state().now; }

void shuffle(Block& b, Warp& w, Shuffle mode, uint32_t group, const uint32_t* value,
             const uint32_t* lane, const uint32_t* clamp, uint32_t* result, uint32_t* in_range,
             const char* text) {
  for (uint32_t l = 0; l < kLanes; ++l) {
    bool in = false;
    uint32_t from = source_lane(mode, l, lane[l], clamp[l], &in);
    if (!in) from = l;
    in_range[l] = in;
    result[l] = value[from];
    if ((group >> l & 1) && !(group >> from & 1)) {
      fail(b, w, text,
           ("lane " + std::to_string(l) + " reads the value of inactive lane " +
            std::to_string(from))
               .c_str());
    }
  }
}

}  // namespace emulator
