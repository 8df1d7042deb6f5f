// SPDX-License-Identifier: Apache-2.0
// logprobs: what tokens had for log-probability (common/logprob.h), under the filters and without
// any. A pass over the rows that sums their strips, and a warp that brings a row's strips together.
// Where a filter may be on, that pass is the scan, for the rows' cuts; what they keep is then
// summed from the tiles that hold it.
#include "cuda/cuts.cuh"
#include "cuda/logit_cut.cuh"
#include "cuda/plan.cuh"
#include "cuda/scan.cuh"
#include "cuda/scanned.cuh"
#include "cuda/strip.cuh"

namespace spec_decode_ops {
namespace cuda {

struct StripParams {
  RowGroup group;       // whose `drafted` are the tokens
  StripMass* plain;     // [rows, strips], by the scan if there is one
  StripMass* filtered;  // the same; nullptr: the law is the plain one
  float* filtered_out;
  float* unfiltered_out;  // [sequences, positions] each

  HOST_DEVICE_MEMBER int strips() const { return group.vocab_over(kStrip); }
};

namespace {

// What all of a row's blocks need to know of its law.
struct StripScratch {
  Row row;
  float temperature;  // of a greedy row 1: only the largest logit is asked for
  bool cuts;
  LogitCut cut;
  float max;  // of a row that is cut: what its masses are relative to
};

// Whether there is a token whose log-probability is asked for. The same for the whole block.
__device__ __forceinline__ bool has_token(const RowGroup& group, const RowId& id) {
  const int64_t token = group.drafted.at(id.sequence, id.position);
  return uniform(token >= 0 && token < group.logits.vocab);
}

__device__ __forceinline__ bool is_cut(const RowGroup& group, const Filter& filter) {
  return group.cut && !greedy(filter) && !keeps_everything(filter, group.logits.vocab);
}

// The row with its penalties; +inf is itself, unless the row was scanned for a cut.
__device__ __forceinline__ Row penalised_row(const RowGroup& group, const RowId& id,
                                             const Filter& filter) {
  Row row = plain_row(group, id);
  look_through_penalty(group, id, filter.penalty, row);
  return row;
}

// By the first warp, while the logits are on their way.
__device__ __forceinline__ void read_law(const RowGroup& group, const RowId& id,
                                         StripScratch& scratch) {
  const Filter filter = filter_of(group, id.sequence);
  const bool cuts = is_cut(group, filter);
  Row row = penalised_row(group, id, filter);
  float max = 0.0f;
  LogitCut cut{};
  if (uniform(cuts)) {
    const ScannedRow scanned = scanned_row(group, id, filter);
    row = scanned.row;
    max = scanned.max;
    cut = logit_cut(group.cut[id.row], filter.temperature);
  }
  if (lane_of_thread() != 0) return;
  scratch.row = row;
  scratch.temperature = greedy(filter) ? 1.0f : filter.temperature;
  scratch.cuts = cuts;
  scratch.cut = cut;
  scratch.max = max;
}

// The row's mass from its strips, in every lane. By a warp.
__device__ __forceinline__ StripMass row_mass(const StripMass* strip, int strips,
                                              float temperature) {
  float max = -kInfinity;
  for (int s = lane_of_thread(); s < strips; s += kWarp) max = fmaxf(max, strip[s].max);
  max = warp_max(max);
  const MassScale scale = strip_scale(max, temperature);
  uint64_t sum = 0;
#pragma unroll 1
  for (int s = lane_of_thread(); s < strips; s += kWarp) sum += mass_in_row(strip[s], max, scale);
  return {max, warp_sum(sum)};
}

// Of the row's token under its filters.
__device__ __forceinline__ float filtered_logprob(const StripParams& p, const RowId& id, int token,
                                                  const StripMass& plain) {
  const RowGroup& group = p.group;
  const Filter filter = filter_of(group, id.sequence);
  const bool is_greedy = greedy(filter), cuts = is_cut(group, filter);
  const float temperature = is_greedy ? 1.0f : filter.temperature;
  const StripMass mass =
      p.filtered ? row_mass(p.filtered + id.row * p.strips(), p.strips(), temperature) : plain;
  Row row = penalised_row(group, id, filter);
  row.infinite = cuts && plain.max == kInfinity;
  const float x = row.at(token);
  if (is_greedy) return greedy_log_probability(x, mass.max);
  if (cuts && !kept(quotient(x, temperature), token, group.cut[id.row])) return -kInfinity;
  return log_probability(x, mass, temperature);
}

}  // namespace

// The strips.
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    strip_kernel(const __grid_constant__ StripParams p) {
  __shared__ StripScratch scratch;
  const ChunkPlace at = chunk_place(p.group, blockIdx.z);
  if (!has_token(p.group, at.id)) return;
  const Row row = plain_row(p.group, at.id);
  float x[kTokensPerThread];
  if (!p.group.cut) load_chunk(row, at.chunk, at.first, x);
  if (p.filtered && uniform_warp() == 0) read_law(p.group, at.id, scratch);
  if (!p.group.plain_strip) keep_strip(p.group, at, strip_mass(x, 1.0f), p.plain);
  if (!p.filtered) return;
  __syncthreads();
  const bool cuts = uniform(scratch.cuts);
  const uint32_t tiles = cuts ? kept_tiles(p.group, at, scratch.row, scratch.cut) : kAllTiles;
  if (!tiles) return keep_strip(p.group, at, {scratch.max, 0}, p.filtered);
  if (p.group.cut) load_chunk(row, at.chunk, at.first, x, tiles);
  settle(scratch.row, at.first, x);
  if (cuts) {
    drop(scratch.cut, at, x);
    keep_strip(p.group, at, strip_from(x, scratch.max, scratch.temperature), p.filtered);
  } else {
    keep_strip(p.group, at, strip_mass(x, scratch.temperature), p.filtered);
  }
}

// What they say of the row's token. A warp a row.
__global__ void __launch_bounds__(kWarp) logprob_kernel(const __grid_constant__ StripParams p) {
  const RowId id = row_id(p.group, blockIdx.x, blockIdx.z);
  float filtered = bits_float(0x7fc00000u), unfiltered = filtered;
  if (has_token(p.group, id)) {
    const int token = int(p.group.drafted.at(id.sequence, id.position));
    const StripMass plain = row_mass(p.plain + id.row * p.strips(), p.strips(), 1.0f);
    unfiltered = log_probability(plain_row(p.group, id).raw(token), plain, 1.0f);
    filtered = filtered_logprob(p, id, token, plain);
  }
  if (threadIdx.x != 0) return;
  const int64_t place = id.sequence * p.group.positions + id.position;
  p.filtered_out[place] = filtered;
  p.unfiltered_out[place] = unfiltered;
}

namespace {

struct Plan {
  CutPlan cuts;
  bool scans;
  StripParams strips;
  size_t bytes;
};

Plan plan(const LogprobParams& p, int64_t rows, Algorithm algorithm, void* workspace) {
  Arena arena(workspace);
  Plan plan{};
  RowGroup group = new_group(p.logits, rows, p.tokens.length, p.filter, p.tokens, arena);
  const bool cuts = may_cut(p.filter, p.logits.vocab);
  plan.scans = cuts || may_penalise(p.filter);
  const int64_t strips = group.rows() * group.vocab_over(kStrip);
  plan.strips.plain = arena.take<StripMass>(strips);
  if (plan.scans) group.plain_strip = plan.strips.plain;
  plan.cuts = plan_cuts(group, cuts, algorithm, arena);
  plan.strips.group = plan.cuts.group;
  const bool unit = !p.filter.temperature.values && p.filter.temperature.scalar == 1.0f;
  if (plan.scans || !(unit || must_be_greedy(p.filter))) {
    plan.strips.filtered = arena.take<StripMass>(strips);
  }
  plan.strips.filtered_out = p.filtered;
  plan.strips.unfiltered_out = p.unfiltered;
  plan.bytes = arena.bytes();
  return plan;
}

}  // namespace

size_t logprobs_workspace(const LogprobParams& params, int64_t rows, Algorithm algorithm) {
  return plan(params, rows, algorithm, nullptr).bytes;
}

cudaError_t logprobs(const LogprobParams& params, int64_t rows, Algorithm algorithm,
                     void* workspace, cudaStream_t stream) {
  const Plan made = plan(params, rows, algorithm, workspace);
  const RowPair pair{made.strips.group, {}};
  if (made.scans) RETURN_IF_FAILED(scan({pair, {}}, stream));
  RETURN_IF_FAILED(find_cuts(made.cuts, {}, stream));
  RETURN_IF_FAILED(launch(strip_kernel, chunks_of(pair), kThreads, stream, made.strips));
  return launch(logprob_kernel, rows_of(pair), kWarp, stream, made.strips);
}

}  // namespace cuda
}  // namespace spec_decode_ops
