// SPDX-License-Identifier: Apache-2.0
// One round of speculative sampling for each sequence, and what becomes of a draft token
// (common/accept.h) once the masses of its rows are known.
#pragma once

#include "cuda/law.cuh"

namespace spec_decode_ops {
namespace cuda {

struct Round {
  RowPair rows;  // without a draft, its law is its one token
  Tokens drafted;
  Noise noise;
  const int64_t* words;    // [sequences, drafts + 1] in place of Philox, or nullptr
  const double* uniforms;  // the same for probabilities, which have no Philox
  bool greedy;             // probabilities: accept what is the first maximum
  bool normalized;         // probabilities: rows sum to 1 and were not scanned
  bool block;              // block verification: later rows may make up for a small p(t)
};

// What a call returns.
struct Verdicts {
  int64_t* accept_length;  // [sequences]
  int64_t* out;            // [sequences, drafts + 1], or nullptr
  int64_t* next_token;     // [sequences], or nullptr
};

// How a position ends the round.
enum class End : int32_t {
  kFirstMaximum,  // a greedy row, whose draft token is another or has ended
  kOwnLaw,        // all accepted, or the draft ended here
  kResidual,      // rejected
};

struct Fractions {
  uint64_t accept, residual, bonus;
};

__device__ __forceinline__ Fractions fractions(const Round& p, int64_t sequence, int64_t position) {
  const int64_t drafts = p.drafted.length, first = sequence * (drafts + 1);
  if (p.words) {
    const uint64_t draw = uint64_t(p.words[first + drafts]);
    return {uint64_t(p.words[first + position]), draw, draw};
  }
  if (p.uniforms) {
    const uint64_t draw = fraction_of(p.uniforms[first + drafts]);
    return {fraction_of(p.uniforms[first + position]), draw, draw};
  }
  const Place place = p.noise.at(sequence);
  return {draw_fraction(place, Purpose::kAccept, uint32_t(position)),
          draw_fraction(place, Purpose::kResidual, uint32_t(position)),
          draw_fraction(place, Purpose::kBonus, uint32_t(position))};
}

__device__ __forceinline__ bool judged_greedily(const Round& p, int64_t sequence) {
  return uniform(p.rows.target.probabilities ? p.greedy
                                             : greedy(filter_of(p.rows.target, sequence)));
}

__device__ __forceinline__ Law draft_law(const Round& p, const RowId& id, int token) {
  return p.rows.draft.positions
             ? law_of(p.rows.draft, row_id(p.rows.draft, id.sequence, id.position), p.normalized)
             : one_token(token);
}

// What becomes of the draft token at a position; under the block rule, whether rows behind it
// matter. By a warp, the same in all lanes.
__device__ __forceinline__ bool accepts_draft(const Round& p, int64_t sequence, int64_t position,
                                              End& end) {
  const int64_t drafted = p.drafted.at(sequence, position);
  const RowId id = row_id(p.rows.target, sequence, position);
  if (judged_greedily(p, sequence)) {
    end = End::kFirstMaximum;
    const ScannedRow scanned = scanned_row(p.rows.target, id, filter_of(p.rows.target, sequence));
    return drafted >= 0 && first_maximum(p.rows.target, id.row, scanned) == drafted;
  }
  end = End::kOwnLaw;
  if (uniform(!in_vocabulary(drafted, p.rows.target.logits, p.rows.draft.logits))) return false;
  const int token = int(drafted);
  const Law draft = draft_law(p, id, token);
  const uint64_t q = draft.of(token);
  if (uniform(q == 0)) return false;
  end = End::kResidual;
  const Law target = law_of(p.rows.target, id, p.normalized);
  if (p.block) return target.of(token) != 0;
  const uint64_t u = fractions(p, sequence, position).accept;
  return accepts(u, target.of(token), target.total, q, draft.total);
}

// Leaves what became of a sequence: its first draft tokens and one more. By a block of kThreads.
__device__ __forceinline__ void leave_verdict(const Verdicts& verdicts, const Tokens& drafted,
                                              int64_t sequence, int length, int token) {
  if (threadIdx.x == 0) verdicts.accept_length[sequence] = length;
  if (threadIdx.x == 0 && verdicts.next_token) verdicts.next_token[sequence] = token;
  if (!verdicts.out) return;
  int64_t* out = verdicts.out + sequence * (drafted.length + 1);
  for (int64_t i = threadIdx.x; i <= drafted.length; i += kThreads) {
    out[i] = i < length ? drafted.at(sequence, i) : (i == length ? token : -1);
  }
}

}  // namespace cuda
}  // namespace spec_decode_ops
