// SPDX-License-Identifier: Apache-2.0
#include "cpu/target.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace spec_decode_ops {
namespace {

constexpr const Target* kBestFirst[] = {
#if defined(__x86_64__)
    &kAvx2,
#endif
    &kScalar,
};

// Asked here, in code for any machine, and not in a target's own.
bool supported(const Target& candidate) {
#if defined(__x86_64__)
  if (&candidate == &kAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return &candidate == &kScalar;
}

const Target& choose() {
  const char* wanted = std::getenv("SPEC_DECODE_OPS_CPU_TARGET");
  std::string have;
  for (const Target* candidate : kBestFirst) {
    if (!supported(*candidate)) continue;
    if (!wanted || !*wanted || std::string(wanted) == candidate->name) return *candidate;
    have += (have.empty() ? "" : ", ") + std::string(candidate->name);
  }
  throw std::runtime_error("SPEC_DECODE_OPS_CPU_TARGET: this machine has no target \"" +
                           std::string(wanted) + "\" (have: " + have + ")");
}

}  // namespace

const Target& target() {
  static const Target& chosen = choose();
  return chosen;
}

}  // namespace spec_decode_ops
