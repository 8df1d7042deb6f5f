// SPDX-License-Identifier: Apache-2.0
#include "cuda/segmented_sort.cuh"

#include <cub/device/device_segmented_radix_sort.cuh>

#include "cuda/scan.cuh"
#include "cuda/scanned.cuh"

namespace spec_decode_ops {
namespace cuda {

// One slice of the rows: `count` sequences of one position from `first` on.
struct SliceParams {
  RowGroup group;
  SortSpace space;
  int64_t position, first, count;
  Noise noise;     // of a draw
  int64_t* token;  // nullptr: the cut is wanted
};

namespace {

constexpr uint32_t kLastKey = 0;  // of NaN: after every number

struct WalkScratch {
  int crossing;
  Scratch<uint64_t, kRowThreads> sums;
  Scratch<Winner, kRowThreads> winners;
};

// A row's tokens in order.
struct SortedRow {
  const uint32_t* key;
  const int32_t* id;
  int count;

  // The first place whose key is below `bound`.
  __device__ int end_of(uint32_t bound) const {
    int low = 0, high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (key[middle] >= bound) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

__device__ __forceinline__ uint32_t sort_key(float x, const Filter& filter) {
  if (!(x == x)) return kLastKey;
  return order_key(greedy(filter) ? x : quotient(x, filter.temperature));
}

// The sum over the block's threads up to and including this one.
__device__ uint64_t block_prefix(uint64_t x, Scratch<uint64_t, kRowThreads>& scratch) {
  uint64_t sum = warp_sum_through(x);
  if (lane_of_thread() == kWarp - 1) scratch.slot[warp_of_thread()] = sum;
  __syncthreads();
  for (int w = 0; w < warp_of_thread(); ++w) sum += scratch.slot[w];
  __syncthreads();
  return sum;
}

// How many tokens stand up to and including the one at which the running mass reaches `need`.
// requires need <= the mass of the first `count`
template <class MassOf>
__device__ int walk_to(uint64_t need, int count, MassOf mass_at, WalkScratch& scratch) {
  if (threadIdx.x == 0) scratch.crossing = count;
  __syncthreads();
  for (int first = 0; first < count; first += kRowThreads) {
    const int i = first + int(threadIdx.x);
    const uint64_t mass = i < count ? mass_at(i) : 0;
    const uint64_t through = block_prefix(mass, scratch.sums);
    if (through - mass < need && need <= through) scratch.crossing = i + 1;
    const uint64_t all = block_sum(mass, scratch.sums);
    if (all >= need) break;
    need -= all;
  }
  __syncthreads();
  const int reached = scratch.crossing;
  __syncthreads();
  return reached;
}

// The first of `count` tokens that fails min-p below the top class, or `count`.
template <class MassOf>
__device__ int first_failing(const SortedRow& sorted, double min_p, int count, MassOf mass_at,
                             WalkScratch& scratch) {
  if (threadIdx.x == 0) scratch.crossing = count;
  __syncthreads();
  const uint64_t bound = min_p_bound(min_p);
  for (int i = int(threadIdx.x); i < count; i += kRowThreads) {
    if (mass_at(i) < bound && sorted.key[i] != sorted.key[0]) atomicMin(&scratch.crossing, i);
  }
  __syncthreads();
  const int failing = scratch.crossing;
  __syncthreads();
  return failing;
}

// How many tokens of the sorted row the filters keep. requires T > 0, a row that is not empty
__device__ int kept_prefix(const SortedRow& sorted, const ScannedRow& scanned, const Filter& filter,
                           WalkScratch& scratch) {
  int count = sorted.end_of(order_key(-kInfinity) + 1);
  if (has_top_k(filter, scanned.row.vocab) && filter.top_k < count) {
    count = sorted.end_of(sorted.key[filter.top_k - 1]);
  }
  const Masses masses = masses_of_logits(scanned.max, filter.temperature);
  const auto mass_at = [&](int i) { return masses.of(scanned.row.at(sorted.id[i])); };
  if (has_top_p(filter)) {
    uint64_t total = 0;
    for (int i = int(threadIdx.x); i < count; i += kRowThreads) total += mass_at(i);
    total = block_sum(total, scratch.sums);
    count = walk_to(top_p_quota(filter.top_p, total), count, mass_at, scratch);
  }
  if (has_min_p(filter)) {
    const int failing = first_failing(sorted, filter.min_p, count, mass_at, scratch);
    if (failing < count) count = sorted.end_of(sorted.key[failing] + 1);
  }
  return count;
}

__device__ int draw_prefix(const SortedRow& sorted, int count, const Place& place,
                           WalkScratch& scratch) {
  Winner best = no_winner();
  for (int i = int(threadIdx.x); i < count; i += kRowThreads) {
    const float y = key_value(sorted.key[i]);
    if (best.open(y, kGumbelMax)) best.show(place, sorted.id[i], y);
  }
  return block_best(best, scratch.winners).token;
}

}  // namespace

__global__ void __launch_bounds__(kThreads, 1) key_kernel(const __grid_constant__ SliceParams p) {
  const ChunkPlace at = chunk_place(p.group, p.position);
  const RowId id = row_id(p.group, p.first + blockIdx.x, p.position);
  const int64_t row = blockIdx.x, vocab = p.group.logits.vocab;
  const Filter filter = filter_of(p.group, id.sequence);
  float x[kTokensPerThread];
  const Row view = scanned_row(p.group, id, filter).row;
  load_chunk(view, at.chunk, at.first, x);
  settle(view, at.first, x);
  for (int j = 0; j < kTokensPerThread; ++j) {
    const int token = at.first + kWarp * j;
    if (token >= vocab) break;
    p.space.key[row * vocab + token] = sort_key(x[j], filter);
    p.space.id[row * vocab + token] = token;
  }
  if (threadIdx.x == 0 && at.chunk == 0) {
    p.space.begin[row] = int32_t(row * vocab);
    if (row + 1 == p.count) p.space.begin[p.count] = int32_t(p.count * vocab);
  }
}

__global__ void __launch_bounds__(kRowThreads, 1)
    walk_kernel(const __grid_constant__ SliceParams p) {
  __shared__ WalkScratch scratch;
  const RowId id = row_id(p.group, p.first + blockIdx.x, p.position);
  const int vocab = int(p.group.logits.vocab);
  const Filter filter = filter_of(p.group, id.sequence);
  const ScannedRow scanned = scanned_row(p.group, id, filter);
  const SortedRow sorted{p.space.sorted_key + blockIdx.x * int64_t(vocab),
                         p.space.sorted_id + blockIdx.x * int64_t(vocab), vocab};
  const bool empty = scanned.max == -kInfinity;
  const int first = empty ? -1 : sorted.id[0];
  int count = 0;
  if (!empty && !greedy(filter)) count = kept_prefix(sorted, scanned, filter, scratch);
  int token = first;
  if (p.token && count) {
    token = draw_prefix(sorted, count, place_of(p.noise, id), scratch);
  }
  if (threadIdx.x != 0) return;
  if (p.token) {
    p.token[id.row] = token;
  } else if (greedy(filter)) {
    p.group.cut[id.row] = {kInfinity, first};
  } else {
    p.group.cut[id.row] =
        empty ? keep_all() : Cut{key_value(sorted.key[count - 1]), sorted.id[count - 1] + 1};
  }
}

namespace {

cudaError_t sort_slice(const SortSpace& space, void* temporary, size_t& bytes, int64_t rows,
                       int64_t vocab, cudaStream_t stream) {
  return cub::DeviceSegmentedRadixSort::SortPairsDescending(
      temporary, bytes, space.key, space.sorted_key, space.id, space.sorted_id, int(rows * vocab),
      int(rows), space.begin, space.begin + 1, 0, 32, stream);
}

cudaError_t sort_and_walk_slice(const SliceParams& slice, cudaStream_t stream) {
  const Grid chunks{slice.count, slice.group.chunks(), 1}, rows{slice.count, 1, 1};
  RETURN_IF_FAILED(launch(key_kernel, chunks, kThreads, stream, slice));
  size_t bytes = slice.space.temporary_bytes;
  RETURN_IF_FAILED(sort_slice(slice.space, slice.space.temporary, bytes, slice.count,
                              slice.group.logits.vocab, stream));
  return launch(walk_kernel, rows, kRowThreads, stream, slice);
}

// Each slice is walked before the next takes its place.
cudaError_t sort_and_walk(SliceParams slice, cudaStream_t stream) {
  const int64_t sequences = slice.group.sequences;
  for (slice.position = 0; slice.position < slice.group.positions; ++slice.position) {
    for (slice.first = 0; slice.first < sequences; slice.first += slice.space.slice) {
      const int64_t left = sequences - slice.first;
      slice.count = left < slice.space.slice ? left : slice.space.slice;
      RETURN_IF_FAILED(sort_and_walk_slice(slice, stream));
    }
  }
  return cudaSuccess;
}

}  // namespace

SortSpace new_sort_space(const RowGroup& group, Arena& arena) {
  SortSpace space{};
  if (group.rows() == 0) return space;
  const int64_t vocab = group.logits.vocab, most = kSortTokens / vocab;
  space.slice = most < kSortRows ? most : kSortRows;
  if (group.sequences < space.slice) space.slice = group.sequences;
  const int64_t tokens = space.slice * vocab;
  space.key = arena.take<uint32_t>(tokens);
  space.sorted_key = arena.take<uint32_t>(tokens);
  space.id = arena.take<int32_t>(tokens);
  space.sorted_id = arena.take<int32_t>(tokens);
  space.begin = arena.take<int32_t>(space.slice + 1);
  sort_slice(space, nullptr, space.temporary_bytes, space.slice, vocab, nullptr);
  space.temporary = arena.take<char>(int64_t(space.temporary_bytes));
  return space;
}

cudaError_t sample_sorted(const RowGroup& group, const SortSpace& space, const Noise& noise,
                          int64_t* token, cudaStream_t stream) {
  RETURN_IF_FAILED(scan({{group, {}}, noise}, stream));
  return sort_and_walk({group, space, 0, 0, 0, noise, token}, stream);
}

cudaError_t cut_sorted(const RowGroup& group, const SortSpace& space, cudaStream_t stream) {
  return sort_and_walk({group, space, 0, 0, 0, {}, nullptr}, stream);
}

}  // namespace cuda
}  // namespace spec_decode_ops
