// SPDX-License-Identifier: Apache-2.0
#include "cuda/bins.cuh"

namespace spec_decode_ops {
namespace cuda {

namespace {

struct BinScratch {
  bool sums;
  Row row;
  MassScale masses;
  BinScale bins;
  SharedSums<kBins, kThreads> sum;
};

// By the first warp, while the logits are on their way.
__device__ __forceinline__ void find_scales(const RowGroup& group, const ChunkPlace& at,
                                            BinScratch& scratch) {
  const Filter filter = filter_of(group, at.id.sequence);
  const ScannedRow scanned = scanned_row(group, at.id, filter);
  const bool sums = uniform(scanned.max > -kInfinity && shares_all(filter, group.logits.vocab));
  if (lane_of_thread() == 0) scratch.sums = sums;
  if (!sums) return;
  const MassScale masses = mass_scale(scanned.max, filter.temperature);
  const BinScale bins = bin_scale(group, at.id.row, scanned, filter.temperature);
  if (lane_of_thread() != 0) return;
  scratch.row = scanned.row;
  scratch.masses = masses;
  scratch.bins = bins;
}

__device__ __forceinline__ void bin_chunk(const RowGroup& group, int64_t position,
                                          BinScratch& scratch) {
  const ChunkPlace at = chunk_place(group, position);
  if (at.chunk >= group.chunks() || !group.bin_mass) return;
  float x[kTokensPerThread];
  load_chunk(plain_row(group, at.id), at.chunk, at.first, x);
  scratch.sum.clear();
  if (uniform_warp() == 0) find_scales(group, at, scratch);
  __syncthreads();
  if (uniform(!scratch.sums)) return;
  settle(scratch.row, at.first, x);
  const MassScale masses = scratch.masses;
  const BinScale bins = scratch.bins;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) {
    const uint64_t units = mass(x[j], masses);
    if (units) scratch.sum.add(bins.bin_of(x[j]), units);
  }
  __syncthreads();
  for (int b = int(threadIdx.x); b < kBins; b += kThreads) {
    const unsigned long long sum = scratch.sum.at(b);
    auto* whole = reinterpret_cast<unsigned long long*>(group.bin_mass + at.id.row * kBins + b);
    if (sum) atomicAdd(whole, sum);
  }
}

}  // namespace

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    bin_kernel(const __grid_constant__ RowPair rows) {
  __shared__ BinScratch scratch;
  const GroupPosition z = group_position(rows);
  bin_chunk(z.of_draft ? rows.draft : rows.target, z.position, scratch);
}

cudaError_t sum_bins(const RowPair& rows, cudaStream_t stream) {
  if (!rows.target.bin_mass && !rows.draft.bin_mass) return cudaSuccess;
  return launch(bin_kernel, chunks_of(rows), kThreads, stream, rows);
}

}  // namespace cuda
}  // namespace spec_decode_ops
