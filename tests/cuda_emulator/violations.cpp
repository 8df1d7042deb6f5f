// SPDX-License-Identifier: Apache-2.0
#include "violations.h"

#include <deque>
#include <mutex>

namespace {

std::mutex mutex;
std::deque<std::string>& found() {
  static std::deque<std::string> texts;
  return texts;
}

}  // namespace

void cuda_emulator::record_violation(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex);
  found().push_back(text);
}

const char* violations_take() {
  static std::string first;
  const std::lock_guard<std::mutex> lock(mutex);
  if (found().empty()) return nullptr;
  first = found().front();
  found().clear();
  return first.c_str();
}
