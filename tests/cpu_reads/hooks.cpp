// SPDX-License-Identifier: Apache-2.0
// Counts what the CPU kernels fetch from memory. They are compiled with -fsanitize=thread, by which
// the compiler calls one of these functions before each access; there is no sanitizer behind them.
// Copies of memory are calls too (-fno-builtin-memcpy), which the linker has come here.
//
// A cache line is fetched when it is read and is none of the last kCached that were: what a kernel
// does with a tile while it is at hand is one reading. For one thread.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr uintptr_t kLine = 64;
constexpr uint64_t kCached = 256;  // 16 kB

struct Range {
  uintptr_t first, last;
  std::vector<uint64_t> fetched_at;  // of each line, in fetches; 0: never
  uint64_t fetches;
};

std::vector<Range> ranges;
uint64_t clock = kCached;

void fetch(Range& range, uintptr_t line) {
  uint64_t& at = range.fetched_at[line - range.first / kLine];
  if (clock - at < kCached) return;
  at = ++clock;
  ++range.fetches;
}

void read(const void* from, size_t size) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(from), last = first + size;
  for (Range& range : ranges) {
    if (last <= range.first || first >= range.last) continue;
    for (uintptr_t line = first / kLine; line <= (last - 1) / kLine; ++line) fetch(range, line);
  }
}

}  // namespace

extern "C" {

// From now on counts the lines that are fetched of [first, first + size). Ranges are numbered from
// 0 in this order.
void reads_watch(const void* first, size_t size) {
  const uintptr_t from = reinterpret_cast<uintptr_t>(first), to = from + size;
  ranges.push_back({from, to, std::vector<uint64_t>((to - 1) / kLine - from / kLine + 1), 0});
}
uint64_t reads_bytes(int range) { return ranges[size_t(range)].fetches * kLine; }
void reads_forget() { ranges.clear(); }

void* __wrap_memcpy(void* to, const void* from, size_t size) {
  if (size) read(from, size);
  return std::memcpy(to, from, size);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define ACCESSES(bytes)                                                \
  void __tsan_read##bytes(void* from) { read(from, bytes); }           \
  void __tsan_write##bytes(void*) {}                                   \
  void __tsan_unaligned_read##bytes(void* from) { read(from, bytes); } \
  void __tsan_unaligned_write##bytes(void*) {}
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
#undef ACCESSES

void __tsan_read_range(void* from, size_t size) { read(from, size); }
void __tsan_write_range(void*, size_t) {}

// Of the guards of static variables, whose type is the machine's.
uint8_t __tsan_atomic8_load(const volatile uint8_t* from, int) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
uint64_t __tsan_atomic64_load(const volatile uint64_t* from, int) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
}
