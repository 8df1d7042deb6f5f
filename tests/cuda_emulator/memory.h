// SPDX-License-Identifier: Apache-2.0
// Device memory. While a device call is open, every torch CPU tensor is made of it: a block of its
// own, poisoned, between redzones, its exact bytes known to the emulator, out of the host's reach
// except while a kernel runs.
#pragma once

#include <cstddef>

namespace cuda_emulator {

// Device memory is for kernels and the runtime only; the rest of a device call runs without it.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;

 private:
  const bool was_locked_;
};

// Is all of [p, p + bytes) device memory that may be read or, if asked, written? Records what not.
bool is_accessible(const void* p, size_t bytes, bool writing, const char* what);

}  // namespace cuda_emulator

extern "C" {
// Makes torch's CPU allocator ours; it passes on what is allocated outside of memory_open/close.
void memory_install();

// From here on the calling thread's tensors are device memory, called `label`. If undefined, a
// kernel may not read what none has written.
void memory_open(const char* label, int undefined);
void memory_close();

// From here on the host has no access to device memory, until it is let in again.
void memory_lock();
void memory_unlock();

// [p, p + bytes) is a buffer of the block it lies in. A block is one buffer until the first of its
// buffers is named; from then on what lies between them is out of bounds. To the label is added
// " at byte n" of the block.
void memory_name_buffer(const void* p, size_t bytes, const char* label);

// Nothing may be written to the block that holds p.
void memory_make_read_only(const void* p);

// Does p lie in device memory?
int memory_holds(const void* p);

// Looks for damage around every block.
void memory_check();

// What kernels read and wrote since the last reset: lines of label, bytes read, bytes written,
// between tabs; good until the next call.
const char* memory_traffic();
void memory_reset_traffic();
}
