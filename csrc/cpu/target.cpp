// SPDX-License-Identifier: Apache-2.0
#include "cpu/target.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace spec_decode_ops {
namespace {

constexpr const Target* kBestFirst[] = {
#if defined(__x86_64__)
    &kAvx512,
    &kAvx2,
#elif defined(__aarch64__)
    &kNeon,
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
#elif defined(__aarch64__)
  if (&candidate == &kNeon) return true;
#endif
  return &candidate == &kScalar;
}

// `source` names whoever asked.
const Target& choose(const char* source, const std::string& wanted) {
  std::string have;
  for (const Target* candidate : kBestFirst) {
    if (!supported(*candidate)) continue;
    if (wanted.empty() || wanted == candidate->name) return *candidate;
    have += (have.empty() ? "" : ", ") + std::string(candidate->name);
  }
  throw std::runtime_error(std::string(source) + ": this machine has no target \"" + wanted +
                           "\" (have: " + have + ")");
}

std::atomic<const Target*> chosen{nullptr};

}  // namespace

const Target& target() {
  const Target* known = chosen.load(std::memory_order_acquire);
  if (known) return *known;
  constexpr const char* kVariable = "SPEC_DECODE_OPS_CPU_TARGET";
  const char* wanted = std::getenv(kVariable);
  const Target& first = choose(kVariable, wanted ? wanted : "");
  chosen.store(&first, std::memory_order_release);
  return first;
}

void force_target(const std::string& name) {
  chosen.store(&choose("cpu_target", name), std::memory_order_release);
}

}  // namespace spec_decode_ops
