// SPDX-License-Identifier: Apache-2.0
// The other way to the same tokens: the whole row is sorted by the order of its quotients
// (common/order.h), and what the filters keep is a prefix of the sorted row. It is the obvious way,
// kept as the oracle on the device.
#pragma once

#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

// The only copies of whole rows: keys and ids of a slice of the rows, before and after the sort.
struct SortSpace {
  int64_t slice;  // rows
  uint32_t *key, *sorted_key;
  int32_t *id, *sorted_id;
  int32_t* begin;  // [slice + 1] where each row begins
  char* temporary;
  size_t temporary_bytes;
};

SortSpace new_sort_space(const RowGroup& group, Arena& arena);

// token[row] drawn over the kept prefix. Makes the scan too.
cudaError_t sample_sorted(const RowGroup& group, const SortSpace& space, const Noise& noise,
                          int64_t* token, cudaStream_t stream);

// group.cut[row] as `cut_row` of finish.cuh has it. After the scan.
cudaError_t cut_sorted(const RowGroup& group, const SortSpace& space, cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
