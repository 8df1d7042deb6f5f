// SPDX-License-Identifier: Apache-2.0
// Global memory: the ranges that kernels may touch, what was read and written there, and the shadow
// of those that the present launch writes to. Reads of a range that nobody has written to yet in
// this launch are only noted, which is cheap; its first write makes the shadow and fills them in.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shadow.h"

namespace emulator {

class Range {
 public:
  Range(uintptr_t begin, size_t bytes, std::string label)
      : begin(begin), end(begin + bytes), label(std::move(label)) {}

  const uintptr_t begin, end;
  const std::string label;
  bool read_only = false;
  uint64_t bytes_read = 0, bytes_written = 0;

  bool holds(uintptr_t first, uintptr_t last) const { return begin <= first && last <= end; }

  // Since `since`, when the present launch began.
  Conflict touch(const Touch&, const Actor&, const BlockOrder*, const ShadowRules&, Time since,
                 int* lane);

  // Bytes that may not be read before they are written.
  void mark(uintptr_t first, size_t bytes, bool defined);
  bool is_defined(uintptr_t first, size_t bytes) const;
  bool tracks_definedness() const { return !undefined_.empty(); }

  void forget_launches();

 private:
  struct Note {
    Touch touch;
    Actor actor;
  };
  void note(const Touch&, const Actor&);
  void shadow_launch(Time since, const ShadowRules&);

  Time noted_since_ = 0;
  std::vector<Note> notes_;
  std::unique_ptr<Shadow> shadow_;
  std::vector<bool> undefined_;
};

class Ranges {
 public:
  void add(uintptr_t begin, size_t bytes, const char* label);
  void remove(uintptr_t begin);
  Range* starting_at(uintptr_t begin);
  Range* around(uintptr_t address);

  // Where an address that is in no range lies, in words.
  std::string describe(uintptr_t address) const;

  template <class Function>
  void for_each(Function function) {
    for (auto& [begin, range] : ranges_) function(range);
  }

 private:
  std::map<uintptr_t, Range> ranges_;
  std::vector<Range*> recent_;
};

}  // namespace emulator
