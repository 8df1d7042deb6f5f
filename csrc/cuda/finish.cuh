// SPDX-License-Identifier: Apache-2.0
// What one block does with one row once the passes over it are done: the first maximum, the draw
// over what the filters keep, or the cut itself.
#pragma once

#include "cuda/select.cuh"

namespace spec_decode_ops {
namespace cuda {

// The draw over the candidates that a cut keeps; -1 if there are none.
__device__ __forceinline__ int draw_candidates(const Candidates& candidates, const Cut& cut,
                                               const Place& place, SelectScratch& scratch) {
  Winner best = no_winner();
  candidates.for_each([&](const Candidate& c) {
    if (kept(c.y, c.id, cut) && best.open(c.y, kGumbelMax)) best.show(place, c.id, c.y);
  });
  return block_best(best, scratch.winners).token;
}

// The draw over the tokens that a cut keeps, of a row whose chunks have drawn from all their
// tokens. A chunk's draw stands if the cut keeps it; if not, and if it is not beaten already, the
// chunk draws again.
class ChunkDraws {
 public:
  __device__ __forceinline__ ChunkDraws(const RowGroup& group, int64_t row, const Row& view,
                                        float temperature, const Place& place)
      : winners_(group.chunk_winner + row * group.chunks()),
        chunks_(group.chunks()),
        row_(view),
        temperature_(divisor(temperature)),
        place_(place) {}

  // Over all tokens, but for those that +inf logits leave out. By a warp, in every lane.
  __device__ __forceinline__ Winner of_all() const {
    return best_kept(keep_all(), uniform(row_.infinite));
  }

  // By the block, in every thread.
  __device__ __forceinline__ Winner kept_by(const Cut& cut,
                                            Scratch<Winner, kRowThreads>& scratch) const {
    Winner best = best_kept(cut, true);
    for (int first = 0; first < chunks_; first += kWarp) {
      const int mine = first + lane_of_thread();
      bool open = false;
      if (mine < chunks_ && winners_[mine].token >= 0) {
        const Winner winner = winners_[mine];
        const float y = quotient_of(winner.token);
        open = y > -kInfinity && !kept(y, winner.token, cut) &&
               beats(winner.score, winner.token, best.score, best.token);
      }
      uint32_t again = __ballot_sync(kAllLanes, open);
      for (; again; again &= again - 1) {
        best = draw_again(first + __ffs(int(again)) - 1, cut, best, scratch);
      }
    }
    return best;
  }

  __device__ __forceinline__ float quotient_of(int token) const {
    return quotient(row_.at(token), temperature_);
  }

 private:
  // The best of the chunks' draws; `asks`: of those that the cut keeps.
  __device__ __forceinline__ Winner best_kept(const Cut& cut, bool asks) const {
    Winner best = no_winner();
    for (int c = lane_of_thread(); c < chunks_; c += kWarp) {
      const Winner winner = winners_[c];
      if (winner.token < 0) continue;
      if (asks && !kept(quotient_of(winner.token), winner.token, cut)) continue;
      best.meet(winner.score, winner.token);
    }
    return warp_best(best);
  }

  __device__ __forceinline__ Winner draw_again(int chunk, const Cut& cut, Winner best,
                                               Scratch<Winner, kRowThreads>& scratch) const {
#pragma unroll 1
    for (int i = int(threadIdx.x); i < kChunk; i += kRowThreads) {
      const int token = chunk * kChunk + i;
      if (token >= row_.vocab) break;
      const float y = quotient_of(token);
      if (kept(y, token, cut) && best.open(y, kGumbelMax)) best.show(place_, token, y);
    }
    return block_best(best, scratch);
  }

  const Winner* const winners_;
  const int chunks_;
  const Row row_;
  const Divisor temperature_;
  const Place place_;
};

// The token of a row that has top-p alone. By the block, in every thread.
__device__ __forceinline__ int sample_nucleus(const RowGroup& group, int64_t index,
                                              const ScannedRow& scanned, const Filter& filter,
                                              const Place& place, SelectScratch& scratch) {
  const NucleusEnd end = nucleus_end(group, index, scanned, filter);
  const ChunkDraws draws(group, index, scanned.row, filter.temperature, place);
  const Winner likely = draws.kept_by({end.ends.from, INT32_MAX}, scratch.winners);
  if (uniform(draws.quotient_of(likely.token) > end.ends.to)) return likely.token;
  Candidates candidates(group, index, scanned, filter.temperature, scratch);
  return draws.kept_by(select_top_p(candidates, end, scratch), scratch.winners).token;
}

// Leaves the row's token.
__device__ __forceinline__ void sample_row(const RowGroup& group, const RowId& id,
                                           const Filter& filter, const Place& place,
                                           SelectScratch& scratch, int64_t* out) {
  const int64_t index = id.row, vocab = group.logits.vocab;
  const ScannedRow scanned = scanned_row(group, id, filter);
  int token;
  if (uniform(greedy(filter) || scanned.max == -kInfinity)) {
    token = first_maximum(group, index, scanned);
  } else if (uniform(keeps_everything(filter, vocab))) {
    token = ChunkDraws(group, index, scanned.row, filter.temperature, place).of_all().token;
  } else if (uniform(draws_from_all(filter, vocab))) {
    token = sample_nucleus(group, index, scanned, filter, place, scratch);
  } else {
    Candidates candidates(group, index, scanned, filter.temperature, scratch);
    const Cut cut = uniform(has_top_k(filter, vocab))
                        ? select_top_k(candidates, filter, scratch)
                        : select_min_p(candidates, group, index, filter, scratch);
    token = draw_candidates(candidates, cut, place, scratch);
  }
  if (threadIdx.x == 0) *out = token;
}

// The row's cut, in every thread. Of a greedy row its `id` is the token, -1 in an empty row.
__device__ __forceinline__ Cut cut_row(const RowGroup& group, const RowId& id, const Filter& filter,
                                       SelectScratch& scratch) {
  const int64_t index = id.row, vocab = group.logits.vocab;
  const ScannedRow scanned = scanned_row(group, id, filter);
  if (uniform(greedy(filter))) return {kInfinity, first_maximum(group, index, scanned)};
  const bool keeps_all = scanned.max == -kInfinity || keeps_everything(filter, vocab);
  if (uniform(keeps_all)) return keep_all();
  Candidates candidates(group, index, scanned, filter.temperature, scratch);
  if (uniform(has_top_k(filter, vocab))) return select_top_k(candidates, filter, scratch);
  if (uniform(has_min_p(filter))) {
    return select_min_p(candidates, group, index, filter, scratch);
  }
  return select_top_p(candidates, nucleus_end(group, index, scanned, filter), scratch);
}

}  // namespace cuda
}  // namespace spec_decode_ops
