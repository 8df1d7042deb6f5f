// SPDX-License-Identifier: Apache-2.0
// Which tokens of a row the filters keep (common/prefix_filter.h), by selection and not by sorting.
// One block a row.
//
// The k-th largest of the tiles' maxima is a proven lower bound of the k-th largest logit; tokens
// under a floor of mass cannot matter to top-p, nor tokens under the bound to min-p. What is left
// above the floor, the candidates, is a few hundred tokens on ordinary rows and stays in shared
// memory. Of a row with more of them the tiles that hold any are read again at each step: slower,
// and the same.
#pragma once

#include "cuda/mass.cuh"

namespace spec_decode_ops {
namespace cuda {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;

struct Candidate {
  int32_t id;
  float y;
  uint64_t mass;
};

struct SelectScratch {
  int count;
  int32_t id[kCandidates];
  float y[kCandidates];
  uint64_t mass[kCandidates];
  uint32_t low[kDigits], high[kDigits];  // 64-bit sums by two native atomics
  uint32_t digit, failing;
  uint64_t rest;
  Scratch<uint64_t, kRowThreads> sums;
  Scratch<Winner, kRowThreads> winners;
};

// The candidates of one row. All members are called by the whole block.
class Candidates {
 public:
  __device__ __forceinline__ Candidates(const RowGroup& group, int64_t index,
                                        const ScannedRow& scanned, float temperature,
                                        SelectScratch& scratch)
      : row_(scanned.row),
        tiles_(group.tiles()),
        tile_max_(group.tile_max + index * group.tiles()),
        temperature_(divisor(temperature)),
        largest_(quotient(scanned.max, temperature_)),
        masses_(masses_of_logits(scanned.max, temperature)),
        scratch_(scratch) {}

  // Takes all tokens whose quotient reaches `floor`, which is finite, and perhaps some below. Ends
  // with a barrier.
  __device__ __forceinline__ void collect(float floor) {
    floor_ = logit_floor(floor, temperature_.value);
    if (threadIdx.x == 0) scratch_.count = 0;
    __syncthreads();
    for (int first = 0; first < tiles_; first += kRowThreads) {
      const int mine = first + int(threadIdx.x);
      uint32_t tiles = __ballot_sync(kAllLanes, mine < tiles_ && tile_reaches(mine));
      for (; tiles; tiles &= tiles - 1) {
        collect_tile(mine - lane_of_thread() + __ffs(int(tiles)) - 1);
      }
    }
    __syncthreads();
    count_ = scratch_.count;
    if (count_ <= kCandidates) {
      for (int i = int(threadIdx.x); i < count_; i += kRowThreads) {
        const Candidate candidate = candidate_of(scratch_.id[i], scratch_.y[i]);
        scratch_.y[i] = candidate.y;
        scratch_.mass[i] = candidate.mass;
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ int count() const { return count_; }
  __device__ __forceinline__ int tiles() const { return tiles_; }
  __device__ __forceinline__ float tile_max(int tile) const {
    return row_.resolve(tile_max_[tile]);
  }
  __device__ __forceinline__ float largest() const { return largest_; }
  __device__ __forceinline__ const Divisor& temperature() const { return temperature_; }

  // Shows each candidate to one thread.
  template <class Visit>
  __device__ __forceinline__ void for_each(Visit visit) const {
    const bool listed = uniform(count_ <= kCandidates);
    const int end = listed ? count_ : row_.vocab;
#pragma unroll 1
    for (int i = int(threadIdx.x); i < end; i += kRowThreads) {
      Candidate candidate;
      if (listed) {
        candidate = {scratch_.id[i], scratch_.y[i], scratch_.mass[i]};
      } else {
        if (!tile_reaches(i / kTile)) continue;
        const float x = row_.at(i);
        if (!(x >= floor_)) continue;
        candidate = candidate_of(i, x);
      }
      visit(candidate);
    }
  }

 private:
  __device__ __forceinline__ bool tile_reaches(int tile) const { return tile_max(tile) >= floor_; }

  __device__ __forceinline__ Candidate candidate_of(int token, float x) const {
    return {token, quotient(x, temperature_), masses_.of(x)};
  }

  // By a warp: lists the tile's candidates with their logits. All its loads are issued before the
  // first is used.
  __device__ __forceinline__ void collect_tile(int tile) {
    const int first = tile * kTile + lane_of_thread();
    float x[kLoadsPerTile];
#pragma unroll
    for (int j = 0; j < kLoadsPerTile; ++j) {
      const int token = first + kWarp * j;
      x[j] = token < row_.vocab ? row_.raw(token) : -kInfinity;
    }
    if (row_.penalised) penalise_all(row_.penalised + tile * kLoadsPerTile, row_.penalty, x);
#pragma unroll
    for (int j = 0; j < kLoadsPerTile; ++j) {
      const int token = first + kWarp * j;
      x[j] = row_.resolve(x[j]);
      if (!(x[j] >= floor_)) continue;
      const int place = atomicAdd(&scratch_.count, 1);
      if (place >= kCandidates) continue;
      scratch_.id[place] = token;
      scratch_.y[place] = x[j];
    }
  }

  const Row row_;
  const int tiles_;
  const float* const tile_max_;
  const Divisor temperature_;
  const float largest_;  // quotient of the row
  const Masses masses_;
  SelectScratch& scratch_;
  float floor_ = 0.0f;
  int count_ = 0;
};

// ---- Radix selection by weight ----

__device__ __forceinline__ void add_to_digit(SelectScratch& scratch, uint32_t digit,
                                             uint64_t weight) {
  const uint32_t low = uint32_t(weight);
  const uint32_t before = atomicAdd(&scratch.low[digit], low);
  const uint32_t high = uint32_t(weight >> 32) + (before + low < before);
  if (high) atomicAdd(&scratch.high[digit], high);
}

// By the first warp: from the largest digit down, the one at which the running sum reaches `need`,
// and what is left to reach within it.
__device__ __forceinline__ void find_digit(SelectScratch& scratch, uint64_t need) {
  constexpr int kPerLane = kDigits / kWarp;
  const int top = kDigits - 1 - lane_of_thread() * kPerLane;
  uint64_t sum = 0;
  for (int i = 0; i < kPerLane; ++i) {
    sum += uint64_t(scratch.high[top - i]) << 32 | scratch.low[top - i];
  }
  uint64_t through = sum;
  for (int step = 1; step < kWarp; step *= 2) {
    const uint64_t other = __shfl_up_sync(kAllLanes, through, step);
    if (lane_of_thread() >= step) through += other;
  }
  uint64_t before = through - sum;
  if (!(before < need && need <= through)) return;
  int digit = top;
  for (;; --digit) {
    const uint64_t weight = uint64_t(scratch.high[digit]) << 32 | scratch.low[digit];
    if (before + weight >= need) break;
    before += weight;
  }
  scratch.digit = uint32_t(digit);
  scratch.rest = need - before;
}

// Extends `prefix`, the digits above `shift` of the crossing rank, by one digit. `visit_weights`
// calls add(rank, weight) for every candidate.
template <class Rank, class VisitWeights>
__device__ __forceinline__ void next_digit(SelectScratch& scratch, Rank& prefix, int shift,
                                           uint64_t& need, VisitWeights visit_weights) {
  for (int d = int(threadIdx.x); d < kDigits; d += kRowThreads) {
    scratch.low[d] = 0;
    scratch.high[d] = 0;
  }
  __syncthreads();
  visit_weights([&](Rank rank, uint64_t weight) {
    const bool same = ((rank ^ prefix) >> shift) >> kDigitBits == 0;
    if (same && weight) add_to_digit(scratch, uint32_t(rank >> shift) % kDigits, weight);
  });
  __syncthreads();
  if (uniform_warp() == 0) find_digit(scratch, need);
  __syncthreads();
  prefix |= Rank(scratch.digit) << shift;
  need = scratch.rest;
  __syncthreads();
}

// Going down the order of quotients, the one at which the running sum of weights reaches `need`; it
// becomes what is left to reach among its equals. requires 1 <= need <= the whole sum
template <class WeightOf>
__device__ __forceinline__ float find_quotient(const Candidates& candidates, uint64_t& need,
                                               WeightOf weight_of, SelectScratch& scratch) {
  uint32_t key = 0;
#pragma unroll 1
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    next_digit(scratch, key, shift, need, [&](auto add) {
      candidates.for_each([&](const Candidate& c) { add(order_key(c.y), weight_of(c)); });
    });
  }
  return key_value(key);
}

// Among the candidates at quotient y, by ascending id, the one at which the running sum of masses
// reaches `need`.
__device__ __forceinline__ int find_tie(const Candidates& candidates, float y, uint64_t need,
                                        SelectScratch& scratch) {
  constexpr uint32_t kLast = (1u << kMaxVocabBits) - 1;  // ranks descend as ids ascend
  uint32_t rank = 0;
#pragma unroll 1
  for (int shift = 2 * kDigitBits; shift >= 0; shift -= kDigitBits) {
    next_digit(scratch, rank, shift, need, [&](auto add) {
      candidates.for_each([&](const Candidate& c) {
        if (c.y == y) add(kLast - uint32_t(c.id), c.mass);
      });
    });
  }
  return int(kLast - rank);
}

// ---- The filters ----

// A lower bound of the row's k-th largest quotient: no fewer than k tokens reach it.
__device__ __forceinline__ float kth_bound(const Candidates& candidates, int64_t k,
                                           SelectScratch& scratch) {
  if (uniform(candidates.tiles() < k)) return -kMaxFloat;
  uint32_t key = 0;
  uint64_t need = uint64_t(k);
#pragma unroll 1
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    next_digit(scratch, key, shift, need, [&](auto add) {
      for (int t = int(threadIdx.x); t < candidates.tiles(); t += kRowThreads) {
        add(order_key(candidates.tile_max(t)), 1);
      }
    });
  }
  const float bound = key_value(key);
  return bound > -kInfinity ? quotient(bound, candidates.temperature()) : -kMaxFloat;
}

__device__ __forceinline__ float candidate_floor(const Candidates& candidates, int vocab,
                                                 const Filter& filter, SelectScratch& scratch) {
  if (uniform(has_top_k(filter, vocab))) return kth_bound(candidates, filter.top_k, scratch);
  const bool bounded = !has_top_p(filter) && filter.min_p > 0x1p-44;
  const float least = bounded ? float(filter.min_p) : 0x1p-44f;
  return mass_floor(candidates.largest(), least < 1.0f ? least : 1.0f);
}

__device__ __forceinline__ Cut top_k_cut(const Candidates& candidates, int64_t k,
                                         SelectScratch& scratch) {
  if (uniform(candidates.count() <= k)) return keep_all();  // the floor says it all
  uint64_t need = uint64_t(k);
  const auto one = [](const Candidate&) { return uint64_t(1); };
  return {find_quotient(candidates, need, one, scratch), INT32_MAX};
}

__device__ __forceinline__ Cut top_p_cut(const Candidates& candidates, double top_p,
                                         const Cut& so_far, SelectScratch& scratch) {
  uint64_t total = 0;
  candidates.for_each([&](const Candidate& c) { total += kept(c.y, c.id, so_far) ? c.mass : 0; });
  uint64_t need = top_p_quota(top_p, block_sum(total, scratch.sums));
  const auto mass_of = [&](const Candidate& c) { return kept(c.y, c.id, so_far) ? c.mass : 0; };
  const float y = find_quotient(candidates, need, mass_of, scratch);
  return {y, find_tie(candidates, y, need, scratch) + 1};
}

__device__ __forceinline__ Cut min_p_cut(const Candidates& candidates, double min_p,
                                         const Cut& so_far, SelectScratch& scratch) {
  if (threadIdx.x == 0) scratch.failing = order_key(-kInfinity);
  __syncthreads();
  const uint64_t bound = min_p_bound(min_p);
  candidates.for_each([&](const Candidate& c) {
    if (c.mass < bound && c.y < candidates.largest() && kept(c.y, c.id, so_far)) {
      atomicMax(&scratch.failing, order_key(c.y));
    }
  });
  __syncthreads();
  const float failing = key_value(scratch.failing);
  __syncthreads();
  return {failing, 0};
}

// The row's cut, in every thread, and its candidates, among which are all tokens that it keeps.
// requires T > 0, a row that is not empty and a filter that may drop something
__device__ __forceinline__ Cut select(Candidates& candidates, int vocab, const Filter& filter,
                                      SelectScratch& scratch) {
  const float floor = candidate_floor(candidates, vocab, filter, scratch);
  candidates.collect(floor);
  Cut cut{floor, INT32_MAX};
  if (uniform(has_top_k(filter, vocab))) {
    cut = stricter(cut, top_k_cut(candidates, filter.top_k, scratch));
  }
  if (uniform(has_top_p(filter))) {
    cut = stricter(cut, top_p_cut(candidates, filter.top_p, cut, scratch));
  }
  if (uniform(has_min_p(filter))) {
    cut = stricter(cut, min_p_cut(candidates, filter.min_p, cut, scratch));
  }
  return cut;
}

}  // namespace cuda
}  // namespace spec_decode_ops
