// SPDX-License-Identifier: Apache-2.0
#include "cpu/target.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace spec_decode_ops {
namespace {

constexpr const Target* kBestFirst[] = {
#if defined(__x86_64__)
    &kAvx512,
    &kAvx2,
#endif
    &kScalar,
};

// Asked here, in code for any machine, and not in a target's own.
bool supported(const Target& candidate) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
                    __builtin_cpu_supports("lzcnt");
  if (&candidate == &kAvx2) return avx2;
  if (&candidate == &kAvx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
  }
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
