// SPDX-License-Identifier: Apache-2.0
// Which tokens of a row the filters keep (common/prefix_filter.h), by selection and not by sorting.
// One block a row.
//
// The k-th largest of the tiles' maxima is a proven lower bound of the k-th largest logit; tokens
// under the bound cannot matter to min-p; and what top-p alone keeps ends among the tokens of one
// bin of the row's mass. The tokens that may decide, the candidates, are a few hundred on ordinary
// rows and stay in shared memory. Of a row with more of them the tiles that hold any are read again
// at each step: slower, and the same.
#pragma once

#include "cuda/bins.cuh"

namespace spec_decode_ops {
namespace cuda {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
// Tiles that a warp looks for candidates in at once.
constexpr int kTilesAtOnce = 4;

struct Candidate {
  int32_t id;
  float x, y;
  uint64_t mass;
};

struct SelectScratch {
  int count;
  int32_t id[kCandidates];
  float x[kCandidates];
  SharedSums<kDigits, kRowThreads> digits;
  Crossing crossing;
  uint32_t failing;
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

  // Takes all tokens with quotients in [from, to], and perhaps some near it. Ends with a barrier.
  // requires a finite `from`
  __device__ __forceinline__ void collect(float from, float to) {
    least_ = logit_floor(from, temperature_.value);
    most_ = -logit_floor(-to, temperature_.value);
    if (threadIdx.x == 0) scratch_.count = 0;
    __syncthreads();
    for (int first = 0; first < tiles_; first += kRowThreads) {
      const int mine = first + int(threadIdx.x);
      uint32_t tiles = __ballot_sync(kAllLanes, mine < tiles_ && tile_reaches(mine));
      while (tiles) collect_some(mine - lane_of_thread(), tiles);
    }
    __syncthreads();
    count_ = scratch_.count;
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
      if (listed) {
        visit(candidate_of(scratch_.id[i], scratch_.x[i]));
      } else if (tile_reaches(i / kTile)) {
        const float x = row_.at(i);
        if (is_between(x)) visit(candidate_of(i, x));
      }
    }
  }

 private:
  __device__ __forceinline__ bool tile_reaches(int tile) const { return tile_max(tile) >= least_; }
  __device__ __forceinline__ bool is_between(float x) const { return x >= least_ && x <= most_; }

  __device__ __forceinline__ Candidate candidate_of(int token, float x) const {
    return {token, x, quotient(x, temperature_), masses_.of(x)};
  }

  // By a warp: takes the lowest of `tiles`, places from `first`, and lists their candidates with
  // their logits. All loads are issued before the first is used.
  __device__ __forceinline__ void collect_some(int first, uint32_t& tiles) {
    int tile[kTilesAtOnce];
    float x[kTilesAtOnce][kLoadsPerTile];
#pragma unroll
    for (int t = 0; t < kTilesAtOnce; ++t) {
      tile[t] = tiles ? first + __ffs(int(tiles)) - 1 : tiles_;
      tiles &= tiles - 1;
      load_tile(tile[t], x[t]);
    }
#pragma unroll
    for (int t = 0; t < kTilesAtOnce; ++t) {
      if (tile[t] < tiles_) list_tile(tile[t], x[t]);
    }
  }

  __device__ __forceinline__ void load_tile(int tile, float (&x)[kLoadsPerTile]) const {
#pragma unroll
    for (int j = 0; j < kLoadsPerTile; ++j) {
      const int token = tile * kTile + kWarp * j + lane_of_thread();
      x[j] = token < row_.vocab ? row_.raw(token) : -kInfinity;
    }
  }

  __device__ __forceinline__ void list_tile(int tile, float (&x)[kLoadsPerTile]) {
    if (row_.penalised) penalise_all(row_.penalised + tile * kLoadsPerTile, row_.penalty, x);
#pragma unroll
    for (int j = 0; j < kLoadsPerTile; ++j) {
      x[j] = row_.resolve(x[j]);
      if (!is_between(x[j])) continue;
      const int place = atomicAdd(&scratch_.count, 1);
      if (place >= kCandidates) continue;
      scratch_.id[place] = tile * kTile + kWarp * j + lane_of_thread();
      scratch_.x[place] = x[j];
    }
  }

  const Row row_;
  const int tiles_;
  const float* const tile_max_;
  const Divisor temperature_;
  const float largest_;  // quotient of the row
  const Masses masses_;
  SelectScratch& scratch_;
  float least_ = 0.0f, most_ = 0.0f;  // logits
  int count_ = 0;
};

// ---- Radix selection by weight ----

// Extends `prefix`, the digits above `shift` of the crossing rank, by one digit. `visit_weights`
// calls add(rank, weight) for every candidate.
template <class Rank, class VisitWeights>
__device__ __forceinline__ void next_digit(SelectScratch& scratch, Rank& prefix, int shift,
                                           uint64_t& need, VisitWeights visit_weights) {
  scratch.digits.clear();
  __syncthreads();
  visit_weights([&](Rank rank, uint64_t weight) {
    const bool same = ((rank ^ prefix) >> shift) >> kDigitBits == 0;
    if (same && weight) scratch.digits.add(int(uint32_t(rank >> shift) % kDigits), weight);
  });
  __syncthreads();
  if (uniform_warp() == 0) {
    const auto from_the_largest = [&](int i) { return scratch.digits.at(kDigits - 1 - i); };
    const Crossing crossing = warp_crossing<kDigits>(need, from_the_largest);
    if (lane_of_thread() == 0) scratch.crossing = crossing;
  }
  __syncthreads();
  prefix |= Rank(kDigits - 1 - scratch.crossing.place) << shift;
  need = scratch.crossing.need;
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

__device__ __forceinline__ Cut top_k_cut(const Candidates& candidates, int64_t k,
                                         SelectScratch& scratch) {
  if (uniform(candidates.count() <= k)) return keep_all();  // the floor says it all
  uint64_t need = uint64_t(k);
  const auto one = [](const Candidate&) { return uint64_t(1); };
  return {find_quotient(candidates, need, one, scratch), INT32_MAX};
}

// The mass of the candidates that a cut keeps, in every thread.
__device__ __forceinline__ uint64_t kept_mass(const Candidates& candidates, const Cut& cut,
                                              SelectScratch& scratch) {
  uint64_t sum = 0;
  candidates.for_each([&](const Candidate& c) { sum += kept(c.y, c.id, cut) ? c.mass : 0; });
  return block_sum(sum, scratch.sums);
}

// The cut after the candidate at which the running mass reaches `need`, among those with
// from <= y <= to. requires 1 <= need <= their mass
__device__ __forceinline__ Cut cut_at_mass(const Candidates& candidates, uint64_t need,
                                           const BinEnds& among, SelectScratch& scratch) {
  const auto mass_of = [&](const Candidate& c) {
    return c.y >= among.from && c.y <= among.to ? c.mass : 0;
  };
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

// With top-k: the cut, in every thread; its tokens are among the candidates.
__device__ __forceinline__ Cut select_top_k(Candidates& candidates, const Filter& filter,
                                            SelectScratch& scratch) {
  const float floor = kth_bound(candidates, filter.top_k, scratch);
  candidates.collect(floor, kMaxFloat);
  Cut cut = stricter({floor, INT32_MAX}, top_k_cut(candidates, filter.top_k, scratch));
  if (uniform(has_top_p(filter))) {
    const uint64_t need = top_p_quota(filter.top_p, kept_mass(candidates, cut, scratch));
    cut = stricter(cut, cut_at_mass(candidates, need, {cut.value, kMaxFloat}, scratch));
  }
  if (uniform(has_min_p(filter))) {
    cut = stricter(cut, min_p_cut(candidates, filter.min_p, cut, scratch));
  }
  return cut;
}

// With min-p, and perhaps top-p, of all the row's mass. Its tokens are among the candidates.
__device__ __forceinline__ Cut select_min_p(Candidates& candidates, const RowGroup& group,
                                            int64_t row, const Filter& filter,
                                            SelectScratch& scratch) {
  const float least = filter.min_p > 0x1p-44 ? float(filter.min_p) : 0x1p-44f;
  const float floor = mass_floor(candidates.largest(), least < 1.0f ? least : 1.0f);
  candidates.collect(floor, kMaxFloat);
  Cut cut{floor, INT32_MAX};
  if (uniform(has_top_p(filter))) {
    const uint64_t need = top_p_quota(filter.top_p, mass_of_bins(group, row));
    if (uniform(need <= kept_mass(candidates, cut, scratch))) {
      cut = stricter(cut, cut_at_mass(candidates, need, {floor, kMaxFloat}, scratch));
    }
  }
  return stricter(cut, min_p_cut(candidates, filter.min_p, cut, scratch));
}

// Where top-p alone ends the nucleus, as the bins tell: tokens above `ends` are in, those below it
// out.
struct NucleusEnd {
  BinScale scale;
  int bin;
  uint64_t need;  // mass that is left to reach in the bin
  BinEnds ends;
};

// By a warp, in every lane.
__device__ __forceinline__ NucleusEnd nucleus_end(const RowGroup& group, int64_t row,
                                                  const ScannedRow& scanned, const Filter& filter) {
  const uint64_t* bins = group.bin_mass + row * kBins;
  const uint64_t quota = top_p_quota(filter.top_p, mass_of_bins(group, row));
  const Crossing crossing = warp_crossing<kBins>(quota, [&](int b) { return bins[b]; });
  const BinScale scale = bin_scale(group, row, scanned, filter.temperature);
  return {scale, crossing.place, crossing.need,
          bin_ends(scale, crossing.place, filter.temperature)};
}

// With top-p alone. Candidates are the tokens near the nucleus' end only; those of them that lie in
// earlier bins count among what is left to reach.
__device__ __forceinline__ Cut select_top_p(Candidates& candidates, const NucleusEnd& end,
                                            SelectScratch& scratch) {
  candidates.collect(end.ends.from, end.ends.to);
  uint64_t earlier = 0;
  candidates.for_each([&](const Candidate& c) {
    const bool among = c.y >= end.ends.from && c.y <= end.ends.to;
    if (among && end.scale.bin_of(c.x) < end.bin) earlier += c.mass;
  });
  const uint64_t need = end.need + block_sum(earlier, scratch.sums);
  return cut_at_mass(candidates, need, end.ends, scratch);
}

}  // namespace cuda
}  // namespace spec_decode_ops
