// SPDX-License-Identifier: Apache-2.0
// Memory of which nothing but the memory itself may be touched: it lies against the end or the
// start of its pages, between two pages that cannot be read. What is left of its own pages holds a
// known byte, and AddressSanitizer, where it is compiled in, is told that nobody may touch it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORBID(start, bytes) ASAN_POISON_MEMORY_REGION(start, bytes)
#define ALLOW(start, bytes) ASAN_UNPOISON_MEMORY_REGION(start, bytes)
#else
#define FORBID(start, bytes) ((void)(start), (void)(bytes))
#define ALLOW(start, bytes) ((void)(start), (void)(bytes))
#endif

namespace redzones {

class Fenced {
 public:
  Fenced(size_t bytes, bool at_end) : bytes_(bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    inner_ = (bytes + page) / page * page;  // at least one byte more
    outer_ = inner_ + 2 * page;
    void* mapped = mmap(nullptr, outer_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error("no memory for a case");
    whole_ = static_cast<char*>(mapped);
    first_ = whole_ + page;
    mprotect(first_, inner_, PROT_READ | PROT_WRITE);
    std::memset(first_, kFill, inner_);
    data_ = at_end ? first_ + (inner_ - bytes) : first_;
    forbid(first_, data_);
    forbid(data_ + bytes_, first_ + inner_);
  }
  ~Fenced() {
    ALLOW(first_, inner_);
    munmap(whole_, outer_);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  char* data() const { return data_; }

  // From here on it is read only.
  void seal() { mprotect(first_, inner_, PROT_READ); }

  // Whether what is left of its pages is as it was. Ends the memory's protection.
  bool intact() {
    ALLOW(first_, inner_);
    for (const char* at = first_; at < first_ + inner_; ++at) {
      if ((at < data_ || at >= data_ + bytes_) && *at != kFill) return false;
    }
    return true;
  }

 private:
  static constexpr char kFill = 0x5a;
  static void forbid(char* from, char* to) { FORBID(from, size_t(to - from)); }

  size_t bytes_, inner_, outer_;
  char *whole_, *first_, *data_;
};

}  // namespace redzones
