// SPDX-License-Identifier: Apache-2.0
// The words that translated code is written in. A kernel's code is cut into parts, functions of
// which each holds some of its places; they give the place of another part to go on at, or kStop.
// Inside of a part, `b` is the block, `w` the warp, `R` its registers and `l` a lane. The code of
// place 7 begins at label L7.
#pragma once

#include "arithmetic.h"
#include "machine.h"

#define LANES for (int l = 0; l < kLanes; ++l)
#define HAS(lanes, l) ((lanes) >> (l) & 1)

// All that live go there together, or each when its turn comes.
#define GO_TOGETHER(there)       \
  do {                           \
    if (!w.converged) {          \
      w.resume(w.active, there); \
      return kStop;              \
    }                            \
  } while (0)

// To a place of the same part, and to one of another.
#define JUMP(there)     \
  do {                  \
    GO_TOGETHER(there); \
    goto L##there;      \
  } while (0)

#define LEAP(there)     \
  do {                  \
    GO_TOGETHER(there); \
    return there;       \
  } while (0)

#define SPEND(instructions)                                   \
  do {                                                        \
    w.executed += instructions;                               \
    if (w.executed > b.instruction_budget) over_budget(b, w); \
  } while (0)

// From here on `group` are the lanes that take part.
#define GATHER(members, here, text)                         \
  const uint32_t group = gather(b, w, members, here, text); \
  if (group == 0) return kStop

namespace emulator {

constexpr int kStop = -1;

template <class T, class Function>
inline void update_each(const uint64_t* address, uint32_t lanes, uint32_t first_lane, T* old,
                        const T* x, const T* y, Function update) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t l = (i + first_lane) % kLanes;
    if (!HAS(lanes, l)) continue;
    old[l] = load<T>(address[l]);
    store<T>(address[l], update(old[l], x[l], y[l]));
  }
}

template <class T>
inline void match_lanes(uint32_t group, const T* value, uint32_t* same) {
  LANES {
    same[l] = 0;
    for (int other = 0; other < kLanes; ++other) {
      same[l] |= uint32_t(HAS(group, other) && value[other] == value[l]) << other;
    }
  }
}

template <class T, class Function>
inline T reduce_lanes(uint32_t group, const T* value, Function combine) {
  T total = value[__builtin_ctz(group)];
  for (uint32_t rest = group & (group - 1); rest; rest &= rest - 1) {
    total = combine(total, value[__builtin_ctz(rest)]);
  }
  return total;
}

// The variables of a module: memory that kernels may touch.
class ModuleVariable {
 public:
  ModuleVariable(const void* p, size_t bytes, const char* name) : p_(p) {
    emulator_add_range(p, bytes, name);
  }
  ~ModuleVariable() { emulator_remove_range(p_); }
  ModuleVariable(const ModuleVariable&) = delete;

 private:
  const void* p_;
};

}  // namespace emulator
