// SPDX-License-Identifier: Apache-2.0
// The Gumbel-argmax draw over one chunk of a row (common/gumbel.h), from logits that are already in
// registers.
//
// Exact pruning: a token whose coarse byte is not zero has G < kGumbelUnlessZero. So the 1 token in
// 256 with a zero byte and the chunk's largest are scored first; then those that can still beat the
// best of them, few on any row. Mostly one warp of the block does all the scoring.
#pragma once

#include "common/indexed_philox.h"
#include "cuda/row.cuh"

namespace spec_decode_ops {
namespace cuda {

struct DrawScratch {
  IndexedPhilox noise[2];  // by purpose: kSample, kSampleFine
  uint4 bytes[kThreads];   // the coarse bytes of the chunk's tokens, a token block each
  Divisor temperature;
  // Of each warp: the lanes whose token block has a zero byte, and its strip's marked_key.
  alignas(16) uint32_t zeros[kStripsPerChunk];
  uint32_t marked[kStripsPerChunk];
  // A logit that all others must reach, from the best of the first, and its key.
  float reach;
  uint32_t reach_key;
  int count;                // of the tokens that reach it
  uint16_t listed[kChunk];  // which they are, from the chunk's first, in any order
  Scratch<Winner, kThreads> winners;
};
static_assert(kTokensPerThread == kTokensPerBlock, "a thread finds the noise of one token block");
static_assert(int(Purpose::kSample) == 0 && int(Purpose::kSampleFine) == 1, "of `noise`");

// By the first warp, before a barrier.
__device__ __forceinline__ void begin_draw(float temperature, const Place& place,
                                           DrawScratch& scratch) {
  const Divisor by = divisor(temperature);
  const int lane = lane_of_thread();
  if (lane < 2) scratch.noise[lane] = indexed_philox(place, Purpose(lane));
  if (lane != 0) return;
  scratch.temperature = by;
  scratch.count = 0;
}

// 0x80 in bytes of a word that are zero and in some that are not, but only where one is.
__device__ __forceinline__ uint32_t with_zero_byte(uint32_t word) {
  return (word - 0x01010101u) & ~word;
}

// Keeps the coarse bytes of one token block a thread, which are not those of the tokens that it
// holds. Gives the lanes of the warp that have a zero byte.
__device__ __forceinline__ uint32_t find_zero_bytes(int chunk, DrawScratch& scratch) {
  const Words words = scratch.noise[0].draw(uint32_t(chunk * kThreads) + threadIdx.x);
  const uint4 in_order = {words.w1, words.w0, words.w3, words.w2};
  scratch.bytes[threadIdx.x] = in_order;
  const uint32_t zeros = with_zero_byte(in_order.x) | with_zero_byte(in_order.y) |
                         with_zero_byte(in_order.z) | with_zero_byte(in_order.w);
  return __ballot_sync(kAllLanes, zeros & 0x80808080u);
}

// 0x80 in each byte that is zero.
__device__ __forceinline__ uint32_t zero_bytes(uint32_t word) {
  return ~(((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word | 0x7f7f7f7fu);
}

// The zero bytes of a token block, as bits in which `zero_place` finds the lowest.
__device__ __forceinline__ uint32_t zero_places(const uint4& bytes) {
  return zero_bytes(bytes.x) >> 7 | zero_bytes(bytes.y) >> 6 | zero_bytes(bytes.z) >> 5 |
         zero_bytes(bytes.w) >> 4;
}
__device__ __forceinline__ int zero_place(uint32_t places) {
  const int bit = __ffs(int(places)) - 1;
  return 4 * (bit % 8) + bit / 8;
}

// The place of the n-th lowest bit that is set, from 0. requires more than n
__device__ __forceinline__ int nth_bit(uint32_t bits, int n) {
  int at = 0;
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int lower = __popc(bits >> at & ((1u << step) - 1));
    if (n >= lower) {
      n -= lower;
      at += step;
    }
  }
  return at;
}

// The n-th token block with a zero byte, from 0, of `count`; any if there are no more than n.
__device__ __forceinline__ int nth_block(int n, const DrawScratch& scratch, int& count) {
  int warp = 0, before = 0;
  count = 0;
#pragma unroll
  for (int w = 0; w < kStripsPerChunk; ++w) {
    if (n >= count) {
      warp = w;
      before = count;
    }
    count += __popc(scratch.zeros[w]);
  }
  return kWarp * warp + nth_bit(scratch.zeros[warp], n - before);
}

// The key of a strip's largest logit, with the warp that holds it in place of its lowest bits: no
// two strips have the same, and the greatest belongs to a strip with about the largest logit.
constexpr uint32_t kMark = kStripsPerChunk - 1;
__device__ __forceinline__ uint32_t marked_key(uint32_t key) {
  return (key & ~kMark) | uint32_t(warp_of_thread());
}

// The greatest of the strips', in every thread.
__device__ __forceinline__ uint32_t largest_marked(const DrawScratch& scratch) {
  return __reduce_max_sync(kAllLanes, scratch.marked[threadIdx.x % kStripsPerChunk]);
}

// What is known of a token before its fine word is drawn.
struct Known {
  int token;
  float y;  // -inf where it cannot be drawn
  uint32_t coarse;
};

// Of the chunk's token at `place`. Keeps nothing of the scratch in registers for the next, where
// `x` needs them.
__device__ __forceinline__ Known look_at(const Row& row, int chunk, int place,
                                         const DrawScratch& scratch) {
  asm volatile("" ::: "memory");
  const int token = chunk * kChunk + place;
  const float x = token < row.vocab ? row.at(token) : -kInfinity;
  return {token, quotient(x, scratch.temperature),
          reinterpret_cast<const uint8_t*>(scratch.bytes)[place]};
}

__device__ __forceinline__ void score(const Known& known, const DrawScratch& scratch,
                                      Winner& best) {
  if (!(known.y > -kInfinity)) return;
  const float g = gumbel(known.coarse, scratch.noise[1].draw(uint32_t(known.token)).w0);
  best.meet(exact_sum(known.y, g), known.token);
}

// The place in the chunk of one token at the strip's largest logit; any place if all are NaN. By a
// warp.
__device__ __forceinline__ int place_of_largest(uint32_t key, const float (&x)[kTokensPerThread]) {
  const float largest = key_value(key);
  int at = -1;
#pragma unroll
  for (int j = 0; j < kTokensPerThread; ++j) at = x[j] == largest ? j : at;
  const int holder = __ffs(int(__ballot_sync(kAllLanes, at >= 0))) - 1;
  const int mine = warp_of_thread() * kStrip + lane_of_thread() + kWarp * (at < 0 ? 0 : at);
  return __shfl_sync(kAllLanes, mine, holder < 0 ? 0 : holder);
}

// The best of the tokens with a zero byte and of the one at `largest`, in every lane; and what the
// others must reach. By a warp.
__device__ __forceinline__ Winner score_first(const Row& row, int chunk, int largest,
                                              DrawScratch& scratch) {
  Winner best = no_winner();
  int count = kThreads, first = 0;
  uint32_t zeros = 0;  // of the token block at `first`, those not scored yet
#pragma unroll 1
  for (int i = lane_of_thread(); i <= count;) {
    if (!zeros) {
      const int block = nth_block(i, scratch, count);
      if (i > count) break;
      if (i < count) zeros = zero_places(scratch.bytes[block]);
      first = block * kTokensPerBlock;
    }
    const int place = zeros ? first + zero_place(zeros) : largest;
    score(look_at(row, chunk, place, scratch), scratch, best);
    zeros &= zeros - 1;
    if (!zeros) i += kWarp;
  }
  best = warp_best(best);
  const float floor = logit_floor(noise_floor(best.score.high), scratch.temperature.value);
  if (lane_of_thread() == 0) {
    scratch.reach = floor;
    scratch.reach_key = order_bits(floor);
  }
  return best;
}

__device__ __forceinline__ void push(int place, DrawScratch& scratch) {
  scratch.listed[atomicAdd(&scratch.count, 1)] = uint16_t(place);
}

// Lists those of the lane's tokens that reach `floor`.
__device__ __forceinline__ void list_reaching(float floor, const float (&x)[kTokensPerThread],
                                              DrawScratch& scratch) {
  uint32_t below = 0;  // by the sign of a difference, in a bit for each token
#pragma unroll
  for (int j = kTokensPerThread - 1; j >= 0; --j) {
    below = __funnelshift_l(float_bits(sub(x[j], floor)), below, 1);
  }
  const uint32_t all = (1u << kTokensPerThread) - 1;
  for (uint32_t which = below ^ all; which; which &= which - 1) {
    const int j = __ffs(int(which)) - 1;
    push(warp_of_thread() * kStrip + kWarp * j + lane_of_thread(), scratch);
  }
}

// Listed tokens that are for one warp alone.
constexpr int kAlone = 4 * kWarp;

// Leaves the best of `best` and the listed tokens, by the warp whose turn is 0. A lane passes over
// tokens that cannot win with their coarse byte until it has one that can: those are scored
// together.
__device__ __forceinline__ void score_rest(const Row& row, int chunk, int turn, int count,
                                           DrawScratch& scratch, Winner best, Winner* drawn) {
  const int step = count <= kAlone ? kWarp : kThreads;
  int i = kWarp * turn + lane_of_thread();
#pragma unroll 1
  for (;;) {
    Known known = {0, -kInfinity, 0};
#pragma unroll 1
    for (; i < count; i += step) {
      known = look_at(row, chunk, scratch.listed[i], scratch);
      if (best.open(known.y, gumbel_bound(known.coarse))) break;
    }
    if (i >= count) break;
    score(known, scratch, best);
    i += step;
  }
  best = warp_best(best);
  if (count > kAlone) {
    if (lane_of_thread() == 0) scratch.winners.slot[turn] = best;
    __syncthreads();
    if (turn != 0) return;
    best = warp_best(scratch.winners.slot[threadIdx.x % kStripsPerChunk]);
  }
  if (lane_of_thread() == 0) *drawn = best;
}

// Leaves the draw over the chunk's tokens. By a block that has begun the draw; `x` holds the
// chunk's logits, `key` is of the strip's largest and `zeros` of this warp.
__device__ __forceinline__ void draw_chunk(Row row, int chunk, uint32_t key, uint32_t zeros,
                                           float (&x)[kTokensPerThread], DrawScratch& scratch,
                                           Winner* drawn) {
  if (lane_of_thread() == 0) {
    scratch.zeros[warp_of_thread()] = zeros;
    scratch.marked[warp_of_thread()] = marked_key(key);
  }
  __syncthreads();
  const uint32_t largest = largest_marked(scratch);
  if (largest >= order_bits(kInfinity)) {
    row.infinite = true;
    resolve_all(row, x);
    key = order_bits(key == order_bits(kInfinity) ? 0.0f : -kInfinity);
  }
  // The warp with the greatest is the first to score.
  const int turn = uniform(int((uint32_t(warp_of_thread()) - largest) & kMark));
  Winner best = no_winner();
  if (turn == 0) best = score_first(row, chunk, place_of_largest(key, x), scratch);
  __syncthreads();
  if (key >= scratch.reach_key) list_reaching(scratch.reach, x, scratch);
  __syncthreads();
  const int count = uniform(scratch.count);
  if (turn != 0 && count <= kAlone) return;
  score_rest(row, chunk, turn, count, scratch, best, drawn);
}

}  // namespace cuda
}  // namespace spec_decode_ops
