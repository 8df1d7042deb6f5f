// SPDX-License-Identifier: Apache-2.0
#include "launch_log.h"

#include <cxxabi.h>

#include <cstdlib>

namespace {

std::string launches;

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = text ? text : name;
  std::free(text);
  return result;
}

std::string text(dim3 size) {
  return std::to_string(size.x) + "," + std::to_string(size.y) + "," + std::to_string(size.z);
}

}  // namespace

void cuda_emulator::log_launch(const std::string& what, dim3 grid, dim3 block,
                               size_t shared_bytes) {
  launches += demangled(what) + "\t" + text(grid) + "\t" + text(block) + "\t" +
              std::to_string(shared_bytes) + "\n";
}

const char* launch_log_read() { return launches.c_str(); }

void launch_log_reset() { launches.clear(); }
