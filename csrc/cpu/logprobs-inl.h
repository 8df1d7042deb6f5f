// SPDX-License-Identifier: Apache-2.0
// logprobs: what tokens had for log-probability (common/logprob.h), under the filters and without
// any. Both come of one pass over the row, but for what it takes to find its cut and what that
// keeps.
#pragma once

#include "common/logprob.h"
#include "cpu/sample-inl.h"

namespace spec_decode_ops {
namespace {

static_assert(kTile == kMassStrip, "a tile is a strip");

// The masses of a row's tiles, kept in the row's space.
class Strips {
 public:
  Strips(const Row& row, float temperature)
      : row_(row), temperature_(temperature), scale_(mass_scale(0.0f, temperature)) {}

  void take(int t) {
    float buffer[kTile];
    const float* x = row_.tile(t, buffer);
    const float max = max_of(lane_maxima<kTile>(x));
    const RowSpace& space = row_.space();
    space.lane_max[t] = max;
    space.tile_sum[t] = max == -kInfinity  ? 0
                        : max == kInfinity ? count_infinite(x) * kMassOfMax
                                           : tile_mass(x, weight_from(max));
  }

  // After all tiles.
  StripMass row_mass() const {
    const RowSpace& space = row_.space();
    float max = -kInfinity;
    for (int t = 0; t < row_.tiles(); ++t) max = larger(space.lane_max[t], max);
    const MassScale scale = strip_scale(max, temperature_);
    uint64_t total = 0;
    for (int t = 0; t < row_.tiles(); ++t) {
      total += mass_in_row({space.lane_max[t], space.tile_sum[t]}, max, scale);
    }
    return {max, total};
  }

 private:
  SoftmaxWeight weight_from(float max) const {
    SoftmaxWeight weight{scale_};
    weight.scale.max = max;
    return weight;
  }
  static uint64_t count_infinite(const float* x) {
    uint64_t count = 0;
    for (int i = 0; i < kTile; ++i) count += x[i] == kInfinity;
    return count;
  }

  const Row& row_;
  float temperature_;
  MassScale scale_;
};

struct Logprob {
  float filtered, unfiltered;
};

// Of a row that keeps all its tokens, or only its first maximum.
inline float logprob_of_all(const Row& row, const StripMass& mass, const Filter& filter,
                            int token) {
  const float x = row.at(token);
  return greedy(filter) ? greedy_log_probability(x, mass.max)
                        : log_probability(x, mass, filter.temperature);
}

// Of a row that a filter cuts, over the masses that verification draws by. requires the row's
// finite maximum, after scan_maxima
inline float logprob_of_kept(const Row& row, float x_max, const Filter& filter, int token,
                             Workspace& work) {
  if (x_max == -kInfinity) return -kInfinity;
  const float x = row.at(token), y = quotient(x, filter.temperature);
  uint64_t total = 0;
  if (has_top_k(filter, row.vocab()) || has_min_p(filter)) {
    const Selection selection = select(row, x_max, filter, true, work);
    if (!kept(y, token, selection.cut)) return -kInfinity;
    for (int i = 0; i < selection.count; ++i) total += row.space().mass[i];
  } else {
    const MassScale scale = mass_scale(x_max, filter.temperature);
    const Nucleus nucleus = find_nucleus(row, scale, filter, work);
    if (!kept(y, token, nucleus.cut)) return -kInfinity;
    total = nucleus.mass;
  }
  return log_probability(x, {x_max, total}, filter.temperature);
}

inline Logprob logprob_of_token(const LogprobParams& p, int64_t index, int64_t position, int token,
                                Workspace& work) {
  const Filter filter = p.filter.at(index);
  const void* data = position_data(p.logits, index, position);
  const Row plain(data, p.logits.dtype, p.logits.vocab, work.draft);
  Strips plain_strips(plain, 1.0f);
  const auto unfiltered = [&] {
    return log_probability(plain.at(token), plain_strips.row_mass(), 1.0f);
  };
  History seen = history(p.filter.previous, index);
  seen.drafted = p.tokens.row(index);
  seen.drafted_count = position;
  seen.drafted_stride = p.tokens.stride;
  Row row(data, p.logits.dtype, p.logits.vocab, work.target);
  if (filter.penalty != 1.0f) penalise_seen(row, seen, filter.penalty);
  if (!greedy(filter) && !keeps_everything(filter, plain.vocab())) {
    const float x_max = finite_maximum(row, [&](int t) { plain_strips.take(t); });
    return {logprob_of_kept(row, x_max, filter, token, work), unfiltered()};
  }
  Strips strips(row, greedy(filter) ? 1.0f : filter.temperature);
  const bool plain_law = !row.penalised() && (greedy(filter) || filter.temperature == 1.0f);
  for (int t = 0; t < plain.tiles(); ++t) {
    plain_strips.take(t);
    if (!plain_law) strips.take(t);
  }
  const StripMass mass = plain_law ? plain_strips.row_mass() : strips.row_mass();
  return {logprob_of_all(row, mass, filter, token), unfiltered()};
}

inline void logprobs(const LogprobParams& p, int64_t first_row, int64_t last_row) {
  Workspace& work = workspace();
  work.reserve(p.logits.vocab);
  const int64_t positions = p.tokens.length;
  for (int64_t r = first_row; r < last_row; ++r) {
    for (int64_t i = 0; i < positions; ++i) {
      const int64_t token = p.tokens.at(r, i);
      Logprob of_token{__builtin_nanf(""), __builtin_nanf("")};
      if (token >= 0 && token < p.logits.vocab) {
        of_token = logprob_of_token(p, r, i, int(token), work);
      }
      p.filtered[r * positions + i] = of_token.filtered;
      p.unfiltered[r * positions + i] = of_token.unfiltered;
    }
  }
}

}  // namespace
}  // namespace spec_decode_ops
