// SPDX-License-Identifier: Apache-2.0
// Runs a grid: blocks one after another, or several at once where they communicate and a seed asks
// for it; a block's warps in turns, each until it waits.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "state.h"

namespace emulator {
namespace {

constexpr size_t kResidents = 6;  // blocks at once, when interleaved
constexpr unsigned kMostThreads = 1024;
constexpr size_t kMostSharedBytes = 227 << 10;
constexpr Time kLatestStart = 3u << 30;

size_t rounded_up(size_t x, size_t multiple) { return (x + multiple - 1) / multiple * multiple; }

char* aligned(std::vector<char>& memory) {
  return reinterpret_cast<char*>(rounded_up(reinterpret_cast<size_t>(memory.data()), 128));
}

class Scheduler {
 public:
  Scheduler(const Kernel&, const unsigned* grid, const unsigned* block, size_t dynamic_bytes,
            void** args);
  void run();

 private:
  void set_up(Resident&, const unsigned* grid, const unsigned* block, size_t dynamic_bytes);
  void begin_block(Resident&, uint32_t flat_index);
  void end_block(Resident&);
  bool step(Resident&);
  Warp* next_warp(Resident&);
  void run_warp(Resident&, Warp&);
  void pass_barrier(Resident&);

  const Kernel& kernel_;
  bool shuffled_;
  std::mt19937_64 random_;
  std::vector<char> params_;
  std::vector<uint32_t> blocks_;
  std::vector<std::unique_ptr<Resident>> residents_;
};

Scheduler::Scheduler(const Kernel& kernel, const unsigned* grid, const unsigned* block,
                     size_t dynamic_bytes, void** args)
    : kernel_(kernel), shuffled_(state().settings.seed != 0), random_(state().settings.seed) {
  random_.discard(state().settings.launches++);
  params_.resize(kernel.param_bytes + 128);
  for (int i = 0; i < kernel.params.count; ++i) {
    std::memcpy(aligned(params_) + kernel.params.first[i].offset, args[i],
                kernel.params.first[i].bytes);
  }
  blocks_.resize(size_t(grid[0]) * grid[1] * grid[2]);
  std::iota(blocks_.rbegin(), blocks_.rend(), 0u);  // they are taken from the end
  if (shuffled_) std::shuffle(blocks_.begin(), blocks_.end(), random_);
  const bool interleaved = shuffled_ && kernel.communicates;
  const size_t residents = interleaved ? std::min(kResidents, blocks_.size()) : 1;
  const size_t shared_bytes = kernel.static_shared_bytes + dynamic_bytes;
  for (size_t i = 0; i < residents; ++i) {
    residents_.push_back(
        std::make_unique<Resident>(shared_bytes, size_t(block[0]) * block[1] * block[2]));
    set_up(*residents_.back(), grid, block, dynamic_bytes);
    residents_.back()->interleaved = interleaved;
  }
}

void Scheduler::set_up(Resident& b, const unsigned* grid, const unsigned* block,
                       size_t dynamic_bytes) {
  b.kernel = &kernel_;
  std::copy_n(grid, 3, b.grid_size);
  std::copy_n(block, 3, b.block_size);
  b.dynamic_shared_bytes = uint32_t(dynamic_bytes);
  b.shared_bytes = uint32_t(kernel_.static_shared_bytes + dynamic_bytes);
  b.shared = aligned(b.shared_memory);
  b.params = aligned(params_);
  b.instruction_budget = state().settings.instruction_budget;
  b.local_memory.resize(b.warps.size() * kLanes * kernel_.local_bytes + 128);
  b.local = aligned(b.local_memory);
  const size_t register_bytes = rounded_up(kernel_.register_bytes, 128);
  b.registers.resize(b.warps.size() * register_bytes + 128);
  for (Warp& w : b.warps) {
    w.registers = aligned(b.registers) + w.index * register_bytes;
    for (uint32_t l = 0; l < kLanes; ++l) {
      const uint32_t t = w.index * kLanes + l;
      w.thread[0][l] = t % block[0];
      w.thread[1][l] = t / block[0] % block[1];
      w.thread[2][l] = t / block[0] / block[1];
    }
  }
}

void Scheduler::begin_block(Resident& b, uint32_t flat_index) {
  b.index[0] = flat_index % b.grid_size[0];
  b.index[1] = flat_index / b.grid_size[0] % b.grid_size[1];
  b.index[2] = flat_index / b.grid_size[0] / b.grid_size[1];
  std::memset(b.shared, kPoison, b.shared_bytes);
  std::memset(b.local_memory.data(), kPoison, b.local_memory.size());
  b.synced = ++state().now;
  b.shared_shadow.begin(b.synced);
  b.order = BlockOrder();
  b.first_lane = shuffled_ ? random_() % kLanes : 0;
  b.voted_true = b.voted = 0;
  for (Warp& w : b.warps) {
    w.live = w.exists;
    w.at_barrier = w.gathering = 0;
    w.executed = 0;
    w.synced = b.synced;
    std::fill_n(w.place, kLanes, 0);
  }
  b.next_warp = 0;
  if (shuffled_) std::shuffle(b.order_of_warps.begin(), b.order_of_warps.end(), random_);
  b.busy = true;
  ++state().launch->counters.blocks;
}

void Scheduler::end_block(Resident& b) {
  for (const Warp& w : b.warps) state().launch->counters.instructions += w.executed;
  b.busy = false;
}

// A warp that does not wait at the barrier, or null.
Warp* Scheduler::next_warp(Resident& b) {
  const size_t count = b.warps.size();
  if (b.interleaved) b.next_warp = random_() % count;
  for (size_t i = 0; i < count; ++i) {
    const size_t turn = (b.next_warp + i) % count;
    Warp& w = b.warps[b.order_of_warps[turn]];
    if (w.live & ~w.at_barrier) {
      b.next_warp = turn;
      return &w;
    }
  }
  return nullptr;
}

void Scheduler::run_warp(Resident& b, Warp& w) {
  while (const uint32_t moving = w.live & ~w.at_barrier) {
    const uint32_t ready = moving & ~w.gathering;
    if (!ready) {
      fail(b, w, "", "deadlock: lanes wait in a warp operation for others that never get there");
    }
    int place = w.place[__builtin_ctz(ready)];
    for (int l = 0; l < kLanes; ++l) {
      if (ready >> l & 1) place = std::min(place, w.place[l]);
    }
    uint32_t there = 0;
    for (int l = 0; l < kLanes; ++l) there |= uint32_t(w.place[l] == place) << l;
    w.activate(there & moving);
    kernel_.run(b, w, place);
    if (b.interleaved) return;
  }
}

// All that live wait at a barrier: is it the same, and are they all?
void Scheduler::pass_barrier(Resident& b) {
  int barrier = -1;
  for (const Warp& w : b.warps) {
    if (w.live != w.exists) {
      fail(b, w, "", "some threads wait at a barrier that others, having exited, never reach");
    }
    for (int l = 0; l < kLanes; ++l) {
      if (!(w.live >> l & 1)) continue;
      if (barrier < 0) barrier = w.barrier[l];
      if (barrier != w.barrier[l]) {
        fail(b, w, "",
             "threads of one block wait at different barriers: one in a divergent branch");
      }
    }
  }
  b.count = b.voted_true;
  b.all = b.voted_true == b.voted;
  b.any = b.voted_true != 0;
  b.voted_true = b.voted = 0;
  b.order.barrier();
  b.synced = ++state().now;
  for (Warp& w : b.warps) {
    w.at_barrier = 0;
    w.synced = b.synced;
  }
  b.next_warp = 0;
  if (shuffled_) std::shuffle(b.order_of_warps.begin(), b.order_of_warps.end(), random_);
  ++state().launch->counters.barriers;
}

// Lets a block take a step; false when it has come to its end.
bool Scheduler::step(Resident& b) {
  if (Warp* w = next_warp(b)) {
    run_warp(b, *w);
    return true;
  }
  const bool over =
      std::all_of(b.warps.begin(), b.warps.end(), [](const Warp& w) { return w.live == 0; });
  if (over) return false;
  pass_barrier(b);
  return true;
}

void Scheduler::run() {
  size_t busy = 0;
  do {
    Resident& b = *residents_[residents_.size() == 1 ? 0 : random_() % residents_.size()];
    if (!b.busy && !blocks_.empty()) {
      begin_block(b, blocks_.back());
      blocks_.pop_back();
      ++busy;
    }
    if (b.busy && !step(b)) {
      end_block(b);
      --busy;
    }
  } while (busy || !blocks_.empty());
}

void check_size(const Kernel& kernel, const unsigned* grid, const unsigned* block,
                size_t dynamic_bytes) {
  const uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
  const bool empty = !threads || !grid[0] || !grid[1] || !grid[2];
  if (empty || threads > kMostThreads || grid[1] > 65535 || grid[2] > 65535 ||
      kernel.static_shared_bytes + dynamic_bytes > kMostSharedBytes) {
    throw Violation(std::string(kernel.name) + ": no such launch: " + std::to_string(threads) +
                    " threads, " + std::to_string(dynamic_bytes) +
                    " bytes of dynamic shared memory");
  }
}

void add(EmulatorCounters& sum, const EmulatorCounters& one) {
  sum.launches += one.launches;
  sum.blocks += one.blocks;
  sum.instructions += one.instructions;
  sum.barriers += one.barriers;
  sum.global_bytes_read += one.global_bytes_read;
  sum.global_bytes_written += one.global_bytes_written;
}

// The launch that is running, from beginning to end, however it ends.
class Running {
 public:
  explicit Running(const char* kernel) : kernel_(kernel) {
    if (state().now > kLatestStart) {
      state().ranges.for_each([](Range& range) { range.forget_launches(); });
      state().now = 1;
    }
    launch_.since = ++state().now;
    launch_.counters.launches = 1;
    state().launch = &launch_;
  }
  ~Running() {
    state().launch = nullptr;
    add(state().counters, launch_.counters);
    add(state().counters_of[kernel_], launch_.counters);
  }
  Running(const Running&) = delete;

 private:
  const char* kernel_;
  Launch launch_;
};

}  // namespace

Resident::Resident(size_t shared_bytes, size_t threads)
    : Block{},
      shared_memory(shared_bytes + 128),
      warps((threads + kLanes - 1) / kLanes),
      order_of_warps(warps.size()),
      shared_shadow(0, shared_bytes) {
  std::iota(order_of_warps.begin(), order_of_warps.end(), 0u);
  for (size_t i = 0; i < warps.size(); ++i) {
    const size_t lanes = std::min<size_t>(kLanes, threads - i * kLanes);
    warps[i].index = uint32_t(i);
    warps[i].exists = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
  }
}

Actor Resident::actor(const Warp& warp, int lane) const {
  return {flat_index(), warp.index * kLanes + uint32_t(lane), state().now, synced, warp.synced};
}

void launch(const Kernel& kernel, const unsigned* grid, const unsigned* block,
            size_t dynamic_shared_bytes, void** args) {
  check_size(kernel, grid, block, dynamic_shared_bytes);
  Running running(kernel.name);
  Scheduler(kernel, grid, block, dynamic_shared_bytes, args).run();
}

}  // namespace emulator
