// SPDX-License-Identifier: Apache-2.0
// What the emulated library did that a GPU would not forgive, in the order of its finding. Whoever
// finds something records it and lets the call go on or fail; the caller of the op asks for it.
#pragma once

#include <string>

namespace cuda_emulator {

void record_violation(const std::string& text);

}  // namespace cuda_emulator

extern "C" {
// The first violation since the last call, or nullptr; the text is good until the next call.
const char* violations_take();
}
