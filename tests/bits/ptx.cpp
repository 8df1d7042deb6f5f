// SPDX-License-Identifier: Apache-2.0
// Chunks computed by kernel.cu's PTX, which a simulator has translated to C++ with these entry
// points.
#include "bits/chunks.h"

extern "C" {
void ptx_register(void* memory, size_t bytes);
void ptx_unregister(void* memory);
#define LAUNCH(name) \
  void launch_bits_##name(const unsigned* grid, const unsigned* block, size_t shared, void** args);
PURE_FUNCTIONS(LAUNCH)
#undef LAUNCH
}

namespace bits {

uint64_t hash_chunk(Function function, uint64_t first, uint64_t size) {
  using Launch = void (*)(const unsigned*, const unsigned*, size_t, void**);
#define LAUNCH(name) launch_bits_##name,
  static constexpr Launch kLaunches[] = {PURE_FUNCTIONS(LAUNCH)};
#undef LAUNCH
  const unsigned grid[] = {1, 1, 1}, block[] = {32, 1, 1};
  uint64_t sum = 0;
  uint64_t* out = &sum;
  void* args[] = {&out, &first, &size};
  ptx_register(out, sizeof sum);
  kLaunches[int(function)](grid, block, 0, args);
  ptx_unregister(out);
  return sum;
}

}  // namespace bits
