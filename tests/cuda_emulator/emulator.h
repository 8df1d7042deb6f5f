// SPDX-License-Identifier: Apache-2.0
// The emulator as its callers see it: which memory kernels may touch, what is checked, what was
// counted, and how a translated kernel is run.
//
// A translated PTX module is a shared library of its own. For each kernel it exports a function of
// type EmulatorLaunch, named launch_<kernel, as nvcc mangles it>, which runs the grid to its end,
// or throws emulator::Violation at the first thing that a GPU would not forgive. What all modules
// share is in libemulator.so, declared here. One thread at a time may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace emulator {

// Says what was wrong, in which kernel, block, warp and thread, and at which address of which
// range.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace emulator

extern "C" {

// args[i] points to the value of the i-th parameter, as with cudaLaunchKernel.
using EmulatorLaunch = void (*)(const unsigned grid[3], const unsigned block[3],
                                size_t dynamic_shared_bytes, void** args);

// What may be switched off. Bounds, alignment, barriers, masks and deadlocks are always checked.
enum EmulatorChecks : unsigned {
  kCheckSharedRaces = 1,    // between threads of one block, in shared memory
  kCheckGlobalRaces = 2,    // between any two threads of one launch, in global memory
  kCheckUninitialized = 4,  // reads of shared memory, or of ranges marked undefined, before a write
  kCheckWarpRaces = 8,      // those races that only __syncwarp or lockstep keeps apart
  kCheckExitedLanes = 16,   // a warp operation names a lane that has exited
  kCheckEverything = 31,
};

// Seed 0 runs blocks and warps in their order. Any other seed shuffles both, and runs some blocks
// of a kernel at the same time, switching between them at each step of its communication, where it
// uses atomics or fences on global memory. In force from the next launch on.
void emulator_configure(uint64_t seed, unsigned checks);

// A warp that executes more instructions than this in one launch is taken to spin for ever.
void emulator_set_instruction_budget(uint64_t instructions);

// Kernels may touch [p, p + bytes), to the byte, and no other global memory. The label is copied.
// Ranges do not overlap.
void emulator_add_range(const void* p, size_t bytes, const char* label);
void emulator_remove_range(const void* p);

// Of the range that begins at p: kernels may not write to it.
void emulator_make_read_only(const void* p);

// Inside one range: to read these bytes is a violation until a kernel has written them.
void emulator_mark_undefined(const void* p, size_t bytes);
void emulator_mark_defined(const void* p, size_t bytes);

// Bytes that lanes asked for in the range that begins at p, since it was added or counters were
// reset. An atomic reads and writes. False if there is no such range.
bool emulator_range_bytes(const void* p, uint64_t* bytes_read, uint64_t* bytes_written);

struct EmulatorCounters {
  uint64_t launches, blocks;
  uint64_t instructions;                             // of warps
  uint64_t barriers;                                 // of blocks
  uint64_t global_bytes_read, global_bytes_written;  // as in emulator_range_bytes
};

// Of one kernel, by its mangled name, or, with nullptr, of all; zeros for a kernel that never ran.
EmulatorCounters emulator_counters(const char* kernel);

// Ranges' bytes as well.
void emulator_reset_counters();

// For callers that cannot catch: runs a launch, returns 0, or 1 and the violation's text, cut to
// `size` bytes.
int emulator_run(EmulatorLaunch launch, const unsigned grid[3], const unsigned block[3],
                 size_t dynamic_shared_bytes, void** args, char* message, size_t size);
}
