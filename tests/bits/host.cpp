// SPDX-License-Identifier: Apache-2.0
// Chunks computed by the C++ compiler that builds the driver.
#include "bits/chunks.h"

namespace bits {

uint64_t hash_chunk(Function function, uint64_t first, uint64_t size) {
  using Sum = uint64_t (*)(uint64_t, uint64_t, uint64_t);
#define SUM(name) sum_checks<hash_##name>,
  static constexpr Sum kSums[] = {PURE_FUNCTIONS(SUM)};
#undef SUM
  return kSums[int(function)](first, first + size, 1);
}

}  // namespace bits
