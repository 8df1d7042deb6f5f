// SPDX-License-Identifier: Apache-2.0
// A chunk is `size` neighbouring checks of one function; its hash is the sum of theirs, so any
// split of the work gives the same, and the chunks of two machines tell where their bits part.
#pragma once

#include "bits/functions.h"

namespace bits {

enum class Function : int {
#define NAME(name) name,
  PURE_FUNCTIONS(NAME)
#undef NAME
};

// The sum over every `step`-th check of [begin, end).
template <uint64_t (*hash_check)(Inputs)>
HOST_DEVICE uint64_t sum_checks(uint64_t begin, uint64_t end, uint64_t step) {
  uint64_t sum = 0;
  for (uint64_t index = begin; index < end; index += step) {
    sum += mix(hash_check(Inputs(index)) + index);
  }
  return sum;
}

// The hash of the chunk [first, first + size). Each build of the driver computes it its own way.
uint64_t hash_chunk(Function function, uint64_t first, uint64_t size);

}  // namespace bits
