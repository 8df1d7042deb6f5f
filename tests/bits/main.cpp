// SPDX-License-Identifier: Apache-2.0
// The driver of one build. Commands:
//   names                             the functions checked, one a line
//   hashes FUNCTION FIRST CHUNKS SIZE  the hash of each chunk, one a line, as it is known
//   extremes FUNCTION FIRST COUNT     of gumbel_words or gumbel_ends: the least G, the greatest,
//                                     and the greatest whose coarse byte is not zero
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bits/chunks.h"

namespace {

using namespace bits;

#define NAME(name) #name,
constexpr const char* kNames[] = {PURE_FUNCTIONS(NAME)};
#undef NAME

Function function_named(const std::string& wanted) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), wanted);
  if (found == std::end(kNames)) {
    std::fprintf(stderr, "no function %s\n", wanted.c_str());
    std::exit(2);
  }
  return Function(found - std::begin(kNames));
}

void print_hashes(Function function, uint64_t first, uint64_t chunks, uint64_t size) {
  for (uint64_t i = 0; i < chunks; ++i) {
    std::printf("%016" PRIx64 "\n", hash_chunk(function, first + i * size, size));
    std::fflush(stdout);
  }
}

void print_extremes(Function function, uint64_t first, uint64_t count) {
  float least = kInfinity, greatest = -kInfinity, greatest_unless_zero = -kInfinity;
  for (uint64_t index = first; index < first + count; ++index) {
    const Noise40 noise =
        function == Function::gumbel_words ? noise_of_word(index) : noise_at_end(index);
    const float g = gumbel(noise.coarse, noise.fine);
    least = std::min(least, g);
    greatest = std::max(greatest, g);
    if (noise.coarse != 0) greatest_unless_zero = std::max(greatest_unless_zero, g);
  }
  std::printf("%.9g %.9g %.9g\n", least, greatest, greatest_unless_zero);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 0); };
  if (command == "names" && argc == 2) {
    for (const char* name : kNames) std::puts(name);
  } else if (command == "hashes" && argc == 6) {
    print_hashes(function_named(argv[2]), number(3), number(4), number(5));
  } else if (command == "extremes" && argc == 5) {
    print_extremes(function_named(argv[2]), number(3), number(4));
  } else {
    std::fprintf(
        stderr,
        "usage: names | hashes FUNCTION FIRST CHUNKS SIZE | extremes FUNCTION FIRST COUNT\n");
    return 2;
  }
}
