// SPDX-License-Identifier: Apache-2.0
// The driver of one build. Commands:
//   names                              the functions checked, one a line
//   hashes FUNCTION FIRST CHUNKS SIZE  the hash of each chunk, one a line, as it is known
//   extremes FUNCTION FIRST COUNT      of gumbel_words or gumbel_ends, each beside its bound: the
//                                      least G, the greatest, the greatest with a coarse byte > 0
//   bounds                             the greatest G of each coarse byte, beside its bound
//   philox W0 W1 W2 W3 KEY             the four words of this counter
//   indexed W0 W1 W2 W3 KEY            the same as one of its place's draws
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bits/chunks.h"
#include "common/indexed_philox.h"

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
  float least = kInfinity, greatest = -kInfinity, unless_zero = -kInfinity;
  for (uint64_t index = first; index < first + count; ++index) {
    const bool words = function == Function::gumbel_words;
    const Noise40 noise = words ? noise_of_word(index) : noise_at_end(index);
    const float g = gumbel(noise.coarse, noise.fine);
    least = std::min(least, g);
    greatest = std::max(greatest, g);
    if (noise.coarse != 0) unless_zero = std::max(unless_zero, g);
  }
  std::printf("%.9g %.9g\n%.9g %.9g\n%.9g %.9g\n", least, kGumbelMin, greatest, kGumbelMax,
              unless_zero, kGumbelUnlessZero);
}

// The least fine words have the greatest G, but for rounding.
void print_bounds() {
  for (uint32_t coarse = 0; coarse < 256; ++coarse) {
    float greatest = -kInfinity;
    for (uint32_t fine = 0; fine < 1u << 12; ++fine) {
      greatest = std::max(greatest, gumbel(coarse, fine));
    }
    std::printf("%.9g %.9g\n", greatest, gumbel_bound(coarse));
  }
}

void print(const Words& words) {
  std::printf("%08x %08x %08x %08x\n", words.w0, words.w1, words.w2, words.w3);
}

Words draw_of_place(const Words& counter, uint64_t key) {
  const uint64_t offset = uint64_t(counter.w3 >> 4) << 32 | counter.w2;
  return indexed_philox({key, offset, counter.w0}, Purpose(counter.w3 & 15)).draw(counter.w1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return uint64_t(std::strtoull(argv[i], nullptr, 0)); };
  const auto word = [&](int i) { return uint32_t(number(i)); };
  if (command == "names" && argc == 2) {
    for (const char* name : kNames) std::puts(name);
  } else if (command == "hashes" && argc == 6) {
    print_hashes(function_named(argv[2]), number(3), number(4), number(5));
  } else if (command == "extremes" && argc == 5) {
    print_extremes(function_named(argv[2]), number(3), number(4));
  } else if (command == "bounds" && argc == 2) {
    print_bounds();
  } else if (command == "philox" && argc == 7) {
    print(philox4x32_10({word(2), word(3), word(4), word(5)}, number(6)));
  } else if (command == "indexed" && argc == 7) {
    print(draw_of_place({word(2), word(3), word(4), word(5)}, number(6)));
  } else {
    std::fprintf(stderr, "no such command; main.cpp begins with those there are\n");
    return 2;
  }
}
