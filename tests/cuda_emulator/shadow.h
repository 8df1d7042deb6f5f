// SPDX-License-Identifier: Apache-2.0
// The shadow of a piece of memory: of each of its cells, who wrote it last and who has read it
// since. Two accesses to a cell race if one of them writes, not both are atomic, and neither
// happens before the other. Cells are as small as the smallest element that was ever accessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "order.h"

namespace emulator {

enum class Finding : uint8_t { kNone, kRace, kUninitialized, kNonCoherent };

struct Conflict {
  Finding finding = Finding::kNone;
  Trace other{};
  bool other_wrote = false;
};

// What a warp does. Lane l accesses address + l * stride, or, where that is not regular, each[l].
struct Touch {
  uintptr_t address;
  size_t stride;
  const uint64_t* each;
  uint32_t lanes;
  uint32_t bytes, element_bytes;
  bool writes, reads;
  Trace::How how;

  uintptr_t address_of(int lane) const {
    return each ? each[lane] : address + size_t(lane) * stride;
  }
};

struct ShadowRules {
  bool races, uninitialized, within_warps;
};

class Shadow {
 public:
  Shadow(uintptr_t base, size_t bytes) : base_(base), bytes_(bytes) {}

  // Forget all that was before.
  void begin(Time since);
  Time since() const { return since_; }

  // Remembers the access; what the first lane that has done something wrong has done. actor.thread
  // is lane 0's.
  Conflict touch(const Touch&, const Actor&, const BlockOrder*, const ShadowRules&, int* lane);

 private:
  // A Trace in a word: time, block, thread, who, how. 0 is none.
  using Word = uint64_t;
  struct Cell {
    Word wrote, read;
  };
  struct Group {  // several blocks' traces
    bool all_atomic;
    std::unordered_map<uint32_t, Word> of_block;
  };
  struct Context;

  static Word pack(const Trace&);
  static Trace unpack(Word);
  void refine(uint32_t element_bytes);
  bool is_past(const Context&, Word) const;
  bool is_quiet(const Context&, const Touch&, const Cell&) const;
  bool touch_quietly(const Context&, const Touch&);
  Conflict touch_cell(const Context&, const Touch&, Cell&);
  Conflict find_conflict(const Context&, const Touch&, Word, bool wrote) const;
  bool is_ordered(const Context&, const Trace&) const;
  void remember(const Context&, Trace::How, Word&);
  void remember_among_blocks(const Context&, Trace::How, Word&);
  Word merge(const Context&, Trace::How, Word) const;

  uintptr_t base_;
  size_t bytes_;
  uint32_t shift_ = 2;  // a cell has 2^shift_ bytes
  Time since_ = 0;
  std::vector<Cell> cells_;
  std::vector<Group> groups_;
};

}  // namespace emulator
