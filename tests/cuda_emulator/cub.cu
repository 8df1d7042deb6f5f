// SPDX-License-Identifier: Apache-2.0
// CUB's collectives on a row a block: sorted, the running sums of what was sorted, and the sum.
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

constexpr int kThreads = 256, kItems = 4;

extern "C" __global__ void __launch_bounds__(kThreads)
    sort_scan_sum(const float* x, float* keys, int* values, float* scan, float* total,
                  int columns) {
  using Sort = cub::BlockRadixSort<float, kThreads, kItems, int>;
  using Scan = cub::BlockScan<float, kThreads>;
  using Reduce = cub::BlockReduce<float, kThreads>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Scan::TempStorage scan;
    typename Reduce::TempStorage reduce;
  } scratch;
  float key[kItems], sum[kItems], own = 0;
  int value[kItems];
  for (int i = 0; i < kItems; ++i) {
    value[i] = threadIdx.x * kItems + i;
    const bool inside = value[i] < columns;
    key[i] = inside ? x[blockIdx.x * columns + value[i]] : -INFINITY;
    own += inside ? key[i] : 0;
  }
  Sort(scratch.sort).SortDescending(key, value);
  __syncthreads();
  Scan(scratch.scan).InclusiveSum(key, sum);
  __syncthreads();
  const float all = Reduce(scratch.reduce).Sum(own);
  for (int i = 0; i < kItems; ++i) {
    const int column = threadIdx.x * kItems + i, at = blockIdx.x * columns + column;
    if (column >= columns) continue;
    keys[at] = key[i];
    values[at] = value[i];
    scan[at] = sum[i];
  }
  if (threadIdx.x == 0) total[blockIdx.x] = all;
}
