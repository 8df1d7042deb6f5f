// SPDX-License-Identifier: Apache-2.0
// A block is mapped on pages of its own:
//
//   guard page | redzone | tensor, at a multiple of 512 as on a GPU | redzone | guard page
//
// Kernels are held to the exact bytes by the emulator, which knows each buffer as a range. Pages
// and redzones are for what the emulator does not see: the host, and the runtime's own copies.
#include <c10/core/CPUAllocator.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emulator.h"
#include "memory.h"
#include "violations.h"

namespace {

using cuda_emulator::record_violation;

constexpr size_t kPage = 4096;
constexpr size_t kRedzone = 512;
constexpr unsigned char kPoison = 0xFB;  // no likely value, as a float or as an integer

struct Buffer {
  char* start;
  size_t bytes;
  std::string label;
};

struct Block {
  char* pages;  // without the guards
  size_t page_bytes;
  char* data;
  size_t bytes;
  std::string label;
  bool undefined;  // until a kernel has written it
  std::vector<Buffer> buffers;
  bool buffers_named = false;
  bool read_only = false;
};

struct Traffic {
  uint64_t read = 0, written = 0;
};

// What memory_open says of the blocks to come.
struct Opened {
  bool now = false, undefined = false;
  std::string label;
};

std::mutex mutex;  // not taken where a fault is handled: nobody touches device memory holding it
std::map<char*, Block> blocks;                        // by data
std::map<std::string, Traffic> traffic_of_the_freed;  // by label
bool locked = false;
struct sigaction previous_action;
thread_local Opened opened;
c10::Allocator* torch_allocator = nullptr;

void add_range(const Block& block, const Buffer& buffer) {
  emulator_add_range(buffer.start, buffer.bytes, buffer.label.c_str());
  if (block.undefined) emulator_mark_undefined(buffer.start, buffer.bytes);
  if (block.read_only) emulator_make_read_only(buffer.start);
}

void add_traffic(const Buffer& buffer, std::map<std::string, Traffic>* sums) {
  Traffic traffic;
  emulator_range_bytes(buffer.start, &traffic.read, &traffic.written);
  Traffic& sum = (*sums)[buffer.label];
  sum.read += traffic.read;
  sum.written += traffic.written;
}

void remove_range(const Buffer& buffer) {
  add_traffic(buffer, &traffic_of_the_freed);
  emulator_remove_range(buffer.start);
}

void protect(const Block& block, bool from_all) {
  mprotect(block.pages, block.page_bytes, from_all ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void protect_all(bool from_all) {
  const std::lock_guard<std::mutex> lock(mutex);
  locked = from_all;
  for (const auto& entry : blocks) protect(entry.second, from_all);
}

Block* block_of(const void* p) {
  char* address = static_cast<char*>(const_cast<void*>(p));
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return nullptr;
  Block& block = (--next)->second;
  return address < block.data + block.bytes || address == block.data ? &block : nullptr;
}

Block* block_on_page(const char* address) {
  for (auto& entry : blocks) {
    Block& block = entry.second;
    if (address >= block.pages && address < block.pages + block.page_bytes) return &block;
  }
  return nullptr;
}

std::string place_in(const Block& block, const char* address) {
  return "byte " + std::to_string(address - block.data) + " of " + block.label + " (" +
         std::to_string(block.bytes) + " bytes)";
}

bool wrote(void* context) {
#ifdef __x86_64__
  constexpr long kWriteBit = 2;  // of the page fault's error code
  return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWriteBit;
#else
  (void)context;
  return false;
#endif
}

// An access of the host to a block: recorded, then let through so that the call can end. Faults
// come from plain loads and stores, so allocating here is safe.
void on_fault(int, siginfo_t* info, void* context) {
  const char* address = static_cast<char*>(info->si_addr);
  const Block* block = block_on_page(address);
  if (!block) {  // not ours: let it happen again under whoever was there before
    sigaction(SIGSEGV, &previous_action, nullptr);
    return;
  }
  record_violation(std::string("the host ") + (wrote(context) ? "writes" : "reads") +
                   " device memory: " + place_in(*block, address));
  protect(*block, false);
}

// ---- Blocks ----

char* new_block(size_t bytes) {
  const size_t page_bytes = (2 * kRedzone + bytes + kPage - 1) / kPage * kPage;
  const size_t mapped = page_bytes + 2 * kPage;
  void* mapping = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  char* pages = static_cast<char*>(mapping) + kPage;
  char* data = pages + kRedzone;
  const Buffer whole{data, bytes, opened.label};
  const Block block{pages, page_bytes, data, bytes, opened.label, opened.undefined, {whole}};
  protect(block, false);
  std::memset(pages, kPoison, page_bytes);
  add_range(block, whole);
  const std::lock_guard<std::mutex> lock(mutex);
  protect(block, locked);
  blocks[data] = block;
  return data;
}

bool is_poison(const char* from, const char* to) {
  for (; from < to; ++from) {
    if (static_cast<unsigned char>(*from) != kPoison) return false;
  }
  return true;
}

// Damage is told of once.
void check_redzones(const Block& block) {
  protect(block, false);
  char* end = block.data + block.bytes;
  const size_t behind = block.pages + block.page_bytes - end;
  if (!is_poison(block.pages, block.data)) {
    record_violation("something was written before " + place_in(block, block.data));
    std::memset(block.pages, kPoison, kRedzone);
  }
  if (!is_poison(end, end + behind)) {
    record_violation("something was written at or beyond " + place_in(block, end));
    std::memset(end, kPoison, behind);
  }
  protect(block, locked);
}

void name_buffer(Block* block, const Buffer& buffer) {
  if (!block->buffers_named) {
    for (const Buffer& whole : block->buffers) remove_range(whole);
    block->buffers.clear();
    block->buffers_named = true;
  }
  for (const Buffer& other : block->buffers) {
    if (buffer.start == other.start && buffer.bytes == other.bytes) return;
    if (buffer.start < other.start + other.bytes && other.start < buffer.start + buffer.bytes) {
      record_violation(buffer.label + ": a buffer of " + std::to_string(buffer.bytes) +
                       " bytes overlaps one of " + std::to_string(other.bytes) + ", " +
                       other.label);
      return;
    }
  }
  block->buffers.push_back(buffer);
  add_range(*block, buffer);
}

void free_block(void* data) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto entry = blocks.find(static_cast<char*>(data));
  const Block& block = entry->second;
  check_redzones(block);
  for (const Buffer& buffer : block.buffers) remove_range(buffer);
  munmap(block.pages - kPage, block.page_bytes + 2 * kPage);
  blocks.erase(entry);
}

// ---- Torch's view of it ----

class DeviceAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (!opened.now || bytes == 0) return torch_allocator->allocate(bytes);
    char* data = new_block(bytes);
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

cuda_emulator::DeviceAccess::DeviceAccess() : was_locked_(locked) {
  if (was_locked_) protect_all(false);
}

cuda_emulator::DeviceAccess::~DeviceAccess() {
  if (was_locked_) protect_all(true);
}

bool cuda_emulator::is_accessible(const void* p, size_t bytes, bool writing, const char* what) {
  const std::lock_guard<std::mutex> lock(mutex);
  const char* start = static_cast<const char*>(p);
  const Block* block = block_of(p);
  if (block && !(writing && block->read_only)) {
    for (const Buffer& buffer : block->buffers) {
      if (start >= buffer.start && start + bytes <= buffer.start + buffer.bytes) return true;
    }
  }
  record_violation(std::string(what) + ": " + std::to_string(bytes) + " bytes " +
                   (block ? "from " + place_in(*block, start) : "that are not device memory") +
                   (block && writing && block->read_only ? ", an input" : ""));
  return false;
}

void memory_install() {
  if (torch_allocator) return;
  constexpr uint8_t kBeforeAllOthers = 255;
  torch_allocator = c10::GetCPUAllocator();
  c10::SetCPUAllocator(new DeviceAllocator, kBeforeAllOthers);
}

void memory_open(const char* label, int undefined) { opened = {true, undefined != 0, label}; }

void memory_close() { opened = {}; }

void memory_lock() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &previous_action);
  protect_all(true);
}

void memory_unlock() {
  protect_all(false);
  sigaction(SIGSEGV, &previous_action, nullptr);
}

void memory_name_buffer(const void* p, size_t bytes, const char* label) {
  if (bytes == 0) return;
  const std::lock_guard<std::mutex> lock(mutex);
  char* start = static_cast<char*>(const_cast<void*>(p));
  Block* block = block_of(p);
  if (!block || start + bytes > block->data + block->bytes) {
    record_violation(std::string(label) + ": a buffer of " + std::to_string(bytes) + " bytes " +
                     (block ? "at " + place_in(*block, start) : "outside of device memory"));
    return;
  }
  const std::string place = " at byte " + std::to_string(start - block->data);
  name_buffer(block, {start, bytes, label + place});
}

void memory_make_read_only(const void* p) {
  const std::lock_guard<std::mutex> lock(mutex);
  Block* block = block_of(p);
  if (!block) return;
  block->read_only = true;
  for (const Buffer& buffer : block->buffers) emulator_make_read_only(buffer.start);
}

int memory_holds(const void* p) {
  const std::lock_guard<std::mutex> lock(mutex);
  return block_of(p) != nullptr;
}

void memory_check() {
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& entry : blocks) check_redzones(entry.second);
}

const char* memory_traffic() {
  static std::string text;
  const std::lock_guard<std::mutex> lock(mutex);
  std::map<std::string, Traffic> sums = traffic_of_the_freed;
  for (const auto& entry : blocks) {
    for (const Buffer& buffer : entry.second.buffers) add_traffic(buffer, &sums);
  }
  text.clear();
  for (const auto& sum : sums) {
    text += sum.first + "\t" + std::to_string(sum.second.read) + "\t" +
            std::to_string(sum.second.written) + "\n";
  }
  return text.c_str();
}

void memory_reset_traffic() {
  const std::lock_guard<std::mutex> lock(mutex);
  traffic_of_the_freed.clear();
  emulator_reset_counters();
}
