// SPDX-License-Identifier: Apache-2.0
// What happens before what, as the PTX memory model has it: program order; barriers, between the
// threads of a block; __syncwarp, between those of a warp; and between blocks a release of one that
// another acquires, through atomics. Nothing else orders anything, whatever the emulator does
// first.
//
// Time counts barriers, __syncwarps and releases of a launch, whichever block they happen in.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emulator {

using Time = uint32_t;

// One access, as memory remembers it: by whom, when, and for how many threads it stands.
struct Trace {
  enum Who : uint32_t { kThread, kWarp, kBlock, kBlocks };  // kBlocks: see Shadow
  enum How : uint32_t { kPlain, kDeviceAtomic, kBlockAtomic, kNonCoherent };

  Time time;
  uint32_t block;
  uint32_t thread;  // of a block; one of several, unless kThread
  Who who;
  How how;

  uint32_t warp() const { return thread / 32; }
};

// All that a block had done, or seen done, when one of its threads released.
struct Release {
  uint32_t block, thread;
  Time block_before;   // everything before the last barrier
  Time warp_before;    // of the thread's warp, everything before its last __syncwarp
  Time thread_before;  // of the thread, everything before the release

  bool covers(const Trace&) const;
  bool covers(const Release&) const;
};

class Knowledge {
 public:
  void add(const Release&);
  void add(const Knowledge&);
  bool covers(const Trace&) const;
  bool empty() const { return of_block_.empty(); }
  void clear() { of_block_.clear(); }

 private:
  std::unordered_map<uint32_t, std::vector<Release>> of_block_;
};

// Who acts now.
struct Actor {
  uint32_t block, thread;
  Time now;
  Time block_synced, warp_synced;  // when its block and its warp last were
  uint32_t warp() const { return thread / 32; }
};

// What a block has released and acquired since it began.
class BlockOrder {
 public:
  bool has_seen(const Actor&, const Trace&) const;
  void fence(const Actor&);
  void barrier();

  // An atomic or strong access to the variable whose Knowledge is given. `updates`: it reads and
  // writes at once, so that what earlier releases put there stays.
  void read(const Actor&, const Knowledge& variable, bool acquires);
  void write(const Actor&, Knowledge& variable, bool releases, bool updates);

 private:
  struct Acquired {
    uint32_t thread;
    Time when;
    Knowledge knowledge;
  };

  Knowledge all_that(const Actor&) const;
  void acquire(const Actor&, const Knowledge&);

  Knowledge known_;                                 // to all threads
  std::vector<Acquired> acquired_;                  // since the last barrier, by one thread
  std::unordered_map<uint32_t, Knowledge> fenced_;  // by thread: what its later writes release
  std::unordered_map<uint32_t, Knowledge> read_;    // by thread: what its next fence acquires
};

}  // namespace emulator
