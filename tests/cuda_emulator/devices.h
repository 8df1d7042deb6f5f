// SPDX-License-Identifier: Apache-2.0
// The GPUs of the imagined machine: one of each compute capability that matters here, or none.
#pragma once

#include <cstddef>

namespace cuda_emulator {

struct Device {
  int capability;                 // 10 * major + minor
  size_t shared_bytes_per_block;  // what a kernel may ask for
  size_t shared_bytes_per_processor;
  int threads_per_processor, blocks_per_processor;
  size_t l2_bytes;
};

// 0 if the machine is to have no GPU.
int device_count();

// nullptr without a GPU. Index -1, that of a CPU tensor, is the current device.
const Device* device(int index = -1);

int current_device();

// False if there is no such device.
bool set_current_device(int index);

}  // namespace cuda_emulator

extern "C" {
// Makes the device of this capability the current one; 0 takes all GPUs away. Returns whether there
// is one.
int devices_select(int capability);

// How many multiprocessors each device has.
void devices_set_processors(int count);
}
