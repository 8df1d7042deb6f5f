// SPDX-License-Identifier: Apache-2.0
// Which passes a call makes, from what the host knows: parameters given as tensors may be anything.
#pragma once

#include "cuda/group.cuh"

namespace spec_decode_ops {
namespace cuda {

inline bool may_have_top_k(const FilterSet& filter, int64_t vocab) {
  return filter.top_k.values || (filter.top_k.scalar > 0 && filter.top_k.scalar < vocab);
}
inline bool has_tensor(const PerRowReal& parameter) {
  return parameter.single.values || parameter.exact.values;
}
inline bool may_have_top_p(const FilterSet& filter) {
  return has_tensor(filter.top_p) || filter.top_p.exact.scalar < 1.0;
}
inline bool may_have_min_p(const FilterSet& filter) {
  return has_tensor(filter.min_p) || filter.min_p.exact.scalar > 0.0;
}
inline bool may_penalise(const FilterSet& filter) {
  return filter.penalty.values || filter.penalty.scalar != 1.0f;
}
inline bool may_be_greedy(const FilterSet& filter) {
  return filter.temperature.values || filter.temperature.scalar <= 0.0f;
}
inline bool must_be_greedy(const FilterSet& filter) {
  return !filter.temperature.values && filter.temperature.scalar <= 0.0f;
}

// Whether some row may drop tokens.
inline bool may_cut(const FilterSet& filter, int64_t vocab) {
  return !must_be_greedy(filter) &&
         (may_have_top_k(filter, vocab) || may_have_top_p(filter) || may_have_min_p(filter));
}

inline bool must_have_top_k(const FilterSet& filter, int64_t vocab) {
  return !filter.top_k.values && filter.top_k.scalar > 0 && filter.top_k.scalar < vocab;
}

// Whether some row may be unfiltered, or have top-p alone.
inline bool may_draw_from_all(const FilterSet& filter, int64_t vocab) {
  const bool surely_min_p = !has_tensor(filter.min_p) && filter.min_p.exact.scalar > 0.0;
  return !must_be_greedy(filter) && !must_have_top_k(filter, vocab) && !surely_min_p;
}

// Whether some row's top-p may share all its mass.
inline bool may_share_all(const FilterSet& filter, int64_t vocab) {
  return !must_be_greedy(filter) && !must_have_top_k(filter, vocab) && may_have_top_p(filter);
}

// A group with the buffers that every call needs.
inline RowGroup new_group(const Logits& logits, int64_t sequences, int64_t positions,
                          const FilterSet& filter, const Tokens& drafted, Arena& arena) {
  RowGroup group{};
  group.logits = logits;
  group.sequences = sequences;
  group.positions = positions;
  group.filter = filter;
  group.drafted = drafted;
  group.tile_max = arena.take<float>(group.rows() * group.tiles());
  const bool history = filter.previous.ids || (drafted.ids && positions > 1);
  if (history && may_penalise(filter)) {
    group.penalised = arena.take<uint32_t>(group.rows() * group.chunks() * (kChunk / 32));
  }
  return group;
}

inline void add_chunk_winners(RowGroup& group, Arena& arena) {
  group.chunk_winner = arena.take<Winner>(group.rows() * group.chunks());
}
inline void add_bins(RowGroup& group, Arena& arena) {
  group.bin_mass = arena.take<uint64_t>(group.rows() * kBins);
}
inline void add_law_masses(RowGroup& group, Arena& arena) {
  group.tile_mass = arena.take<uint64_t>(group.rows() * group.tiles());
  group.law = arena.take<RowLaw>(group.rows());
}
// For the target, whose positions are judged as they are summed.
inline void add_judgement(RowGroup& group, Arena& arena) {
  group.arrived = arena.take<uint32_t>(group.rows());
  group.first_rejected = arena.take<int32_t>(group.sequences);
}
inline void add_cuts(RowGroup& group, Arena& arena) { group.cut = arena.take<Cut>(group.rows()); }

}  // namespace cuda
}  // namespace spec_decode_ops
