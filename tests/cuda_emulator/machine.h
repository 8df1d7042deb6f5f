// SPDX-License-Identifier: Apache-2.0
// The machine that translated kernels run on: what a kernel, a block and a warp are, and what the
// translated code asks of the runtime. A warp runs in lockstep: the lanes that are at the same
// place execute together, those at the earliest place first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator.h"

namespace emulator {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = ~0u;

struct Block;
struct Warp;

enum class Space : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric };
enum class Kind : uint8_t { kRead, kWrite, kUpdate };
enum class Order : uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kAcquireRelease };
enum class Scope : uint8_t { kBlock, kDevice };

// A load, store or atomic of the PTX text.
struct Access {
  const char* text;
  Space space;
  Kind kind;
  uint8_t bytes;  // of one lane, all elements of a vector together
  uint8_t element_bytes;
  Order order;
  Scope scope;
  bool non_coherent;
};

struct Variable {
  const char* name;
  uint32_t offset, bytes;
};

struct Variables {
  const Variable* first;
  int count;
  const Variable* begin() const { return first; }
  const Variable* end() const { return first + count; }
};

using Run = void (*)(Block&, Warp&, int place);

struct Kernel {
  const char* name;
  Run run;  // the active lanes, from a place on, until they wait, part or are at the end
  Variables params, shared, local;
  uint32_t param_bytes, static_shared_bytes, local_bytes;
  uint32_t register_bytes;
  bool communicates;  // by atomics, strong accesses or fences, with other blocks
  bool orders;        // some of these release or acquire
};

struct Warp {
  uint32_t index = 0;
  uint32_t exists = 0;      // lanes that the block has threads for
  uint32_t live = 0;        // of these, not exited
  uint32_t active = 0;      // executing now
  uint32_t at_barrier = 0;  // wait for the block
  uint32_t gathering = 0;   // wait for other lanes of their warp operation
  bool converged = false;   // active == live
  uint64_t executed = 0;    // instructions in this block
  uint32_t synced = 0;      // when its last __syncwarp was
  uint32_t on[kLanes];      // `active`, a word a lane
  int place[kLanes];        // of each lane: what it executes next
  int barrier[kLanes];      // of each lane at a barrier: which
  uint32_t thread[3][kLanes];
  void* registers = nullptr;

  void resume(uint32_t lanes, int at) {
    for (int l = 0; l < kLanes; ++l) place[l] = lanes >> l & 1 ? at : place[l];
  }

  void activate(uint32_t lanes) {
    active = lanes;
    converged = lanes == live;
    for (int l = 0; l < kLanes; ++l) on[l] = 0u - (lanes >> l & 1);
  }

  void exit(uint32_t lanes, int next) {
    live &= ~lanes;
    gathering = 0;  // those who waited for these lanes look again
    resume(active & ~lanes, next);
  }

  void wait_at_barrier(int which, int next) {
    at_barrier |= active;
    for (int l = 0; l < kLanes; ++l) barrier[l] = active >> l & 1 ? which : barrier[l];
    resume(active, next);
  }
};

// What translated code sees of a block; the runtime keeps more beside it.
struct Block {
  const Kernel* kernel;
  uint32_t block_size[3], index[3], grid_size[3];
  uint32_t dynamic_shared_bytes, shared_bytes;
  char* shared;
  char* params;
  char* local;
  uint64_t instruction_budget;
  uint32_t first_lane;  // atomics of a warp take place from this lane on
  bool interleaved;     // give way after each step of communication
  uint32_t voted_true;  // in the present barrier, where it also votes
  uint32_t voted;
  uint32_t count, all, any;  // results of the last barrier's vote

  void vote(uint32_t lanes, uint32_t active) {
    voted_true += uint32_t(__builtin_popcount(lanes & active));
    voted += uint32_t(__builtin_popcount(active));
  }

  char* local_of(const Warp& warp, int lane) const {
    return local + size_t(kernel->local_bytes) * (warp.index * kLanes + uint32_t(lane));
  }
};

enum class Shuffle { kIndex, kUp, kDown, kButterfly };

// What is wrong, where; throws Violation.
[[noreturn]] void fail(const Block&, const Warp&, const char* text, const char* what);
[[noreturn]] void over_budget(const Block&, const Warp&);

// Checks what `lanes` do and turns their addresses into the host's.
void access(Block&, Warp&, uint64_t* address, uint32_t lanes, const Access&);

void fence(Block&, Warp&, uint32_t lanes);

// The active lanes that execute one warp operation together, as `members` of each lane says. 0:
// they wait for others. If only some of the active lanes do, the warp now runs those alone.
uint32_t gather(Block&, Warp&, const uint32_t* members, int here, const char* text);

void sync_warp(Block&, Warp&);
void shuffle(Block&, Warp&, Shuffle, uint32_t group, const uint32_t* value, const uint32_t* lane,
             const uint32_t* clamp, uint32_t* result, uint32_t* in_range, const char* text);

// Runs a grid; what launch_<kernel> does.
void launch(const Kernel&, const unsigned* grid, const unsigned* block, size_t dynamic_shared_bytes,
            void** args);

}  // namespace emulator
