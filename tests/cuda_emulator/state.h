// SPDX-License-Identifier: Apache-2.0
// What the runtime keeps: settings, global memory, counters, the launch that is running and the
// blocks that it has on the machine.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "machine.h"
#include "order.h"
#include "ranges.h"
#include "shadow.h"

namespace emulator {

constexpr char kPoison = char(0xfb);

struct Settings {
  uint64_t seed = 0;
  unsigned checks = kCheckEverything;
  uint64_t instruction_budget = 1ull << 26;
  uint64_t launches = 0;  // since the seed was set
};

// One launch.
struct Launch {
  Time since;
  std::unordered_map<uintptr_t, Knowledge> released;  // by the variable that it was released to
  EmulatorCounters counters{};
};

// A block on the machine.
struct Resident : Block {
  explicit Resident(size_t shared_bytes, size_t threads);

  std::vector<char> shared_memory, local_memory, registers;
  std::vector<Warp> warps;
  std::vector<uint32_t> order_of_warps;
  size_t next_warp = 0;  // in that order
  Shadow shared_shadow;
  BlockOrder order;
  Time synced = 0;
  bool busy = false;

  uint32_t flat_index() const {
    return (index[2] * grid_size[1] + index[1]) * grid_size[0] + index[0];
  }
  Actor actor(const Warp& warp, int lane) const;
};

struct State {
  Settings settings;
  Ranges ranges;
  EmulatorCounters counters{};
  std::map<std::string, EmulatorCounters> counters_of;
  Launch* launch = nullptr;
  Time now = 1;
};

State& state();

inline Resident& resident(Block& block) { return static_cast<Resident&>(block); }

}  // namespace emulator
