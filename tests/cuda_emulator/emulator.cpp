// SPDX-License-Identifier: Apache-2.0
#include "emulator.h"

#include <cstdio>

#include "state.h"

namespace emulator {

State& state() {
  static State* everything = new State;  // modules use it until the process has ended
  return *everything;
}

void fail(const Block& b, const Warp& w, const char* text, const char* what) {
  char message[1024];
  std::snprintf(message, sizeof message, "%s: block (%u, %u, %u), warp %u, lanes %08x: %s%s%s",
                b.kernel->name, b.index[0], b.index[1], b.index[2], w.index, w.active, what,
                *text ? ": " : "", text);
  throw Violation(message);
}

void over_budget(const Block& b, const Warp& w) {
  fail(b, w, "", "endless loop: the warp has used up its budget of instructions");
}

}  // namespace emulator

using emulator::Range;
using emulator::state;

namespace {

uintptr_t number(const void* p) { return reinterpret_cast<uintptr_t>(p); }

void mark(const void* p, size_t bytes, bool defined) {
  Range* range = state().ranges.around(number(p));
  if (range && range->holds(number(p), number(p) + bytes)) range->mark(number(p), bytes, defined);
}

}  // namespace

extern "C" {

void emulator_configure(uint64_t seed, unsigned checks) {
  state().settings.seed = seed;
  state().settings.checks = checks;
  state().settings.launches = 0;
}

void emulator_set_instruction_budget(uint64_t instructions) {
  state().settings.instruction_budget = instructions;
}

void emulator_add_range(const void* p, size_t bytes, const char* label) {
  state().ranges.add(number(p), bytes, label);
}

void emulator_remove_range(const void* p) { state().ranges.remove(number(p)); }

void emulator_make_read_only(const void* p) {
  if (Range* range = state().ranges.starting_at(number(p))) range->read_only = true;
}

void emulator_mark_undefined(const void* p, size_t bytes) { mark(p, bytes, false); }

void emulator_mark_defined(const void* p, size_t bytes) { mark(p, bytes, true); }

bool emulator_range_bytes(const void* p, uint64_t* bytes_read, uint64_t* bytes_written) {
  const Range* range = state().ranges.starting_at(number(p));
  *bytes_read = range ? range->bytes_read : 0;
  *bytes_written = range ? range->bytes_written : 0;
  return range != nullptr;
}

EmulatorCounters emulator_counters(const char* kernel) {
  if (!kernel) return state().counters;
  const auto found = state().counters_of.find(kernel);
  return found == state().counters_of.end() ? EmulatorCounters{} : found->second;
}

void emulator_reset_counters() {
  state().counters = {};
  state().counters_of.clear();
  state().ranges.for_each([](Range& range) { range.bytes_read = range.bytes_written = 0; });
}

int emulator_run(EmulatorLaunch launch, const unsigned grid[3], const unsigned block[3],
                 size_t dynamic_shared_bytes, void** args, char* message, size_t size) {
  try {
    launch(grid, block, dynamic_shared_bytes, args);
    return 0;
  } catch (const emulator::Violation& violation) {
    std::snprintf(message, size, "%s", violation.what());
    return 1;
  }
}
}
