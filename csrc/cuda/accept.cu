// SPDX-License-Identifier: Apache-2.0
// verify_greedy and accept: verification of ready probability rows. Normalised rows are read only
// where they decide; others are scanned and summed first.
#include "cuda/judge.cuh"
#include "cuda/mass.cuh"
#include "cuda/plan.cuh"
#include "cuda/scan.cuh"

namespace spec_decode_ops {
namespace cuda {
namespace {

struct Plan {
  RowGroup target, draft;
  BlockSpace block;  // of the block rule, else empty
  PairSpace pairs;
  size_t bytes;
};

RowGroup new_probabilities(const Logits& logits, int64_t rows, int64_t positions, bool scanned,
                           bool summed, Arena& arena) {
  RowGroup group{};
  group.logits = logits;
  group.sequences = rows;
  group.positions = positions;
  group.probabilities = true;
  if (scanned) group.tile_max = arena.take<float>(group.rows() * group.tiles());
  if (summed) add_law_masses(group, arena);
  return group;
}

Plan plan(const AcceptParams& p, int64_t rows, void* workspace) {
  Arena arena(workspace);
  Plan plan{};
  const bool greedy = !p.uniforms, scanned = greedy || !p.normalized;
  const bool summed = scanned && !greedy;
  const int64_t drafts = p.drafted.length;
  plan.target = new_probabilities(p.target, rows, drafts + 1, scanned, summed, arena);
  if (p.draft.data && !greedy) {
    plan.draft = new_probabilities(p.draft, rows, drafts, scanned, summed, arena);
  }
  if (summed) add_judgement(plan.target, arena);
  if (!greedy) {
    const RowPair pair{plan.target, plan.draft};
    const bool by_block = p.rule == Rule::kBlock && plan.draft.rows() > 0;
    if (by_block) plan.block = new_block_space(pair, arena);
    plan.pairs = new_pair_space(pair, by_block, p.normalized, arena);
  }
  plan.bytes = arena.bytes();
  return plan;
}

}  // namespace

size_t accept_workspace(const AcceptParams& params, int64_t rows) {
  return plan(params, rows, nullptr).bytes;
}

cudaError_t accept(const AcceptParams& params, int64_t rows, void* workspace, cudaStream_t stream) {
  const Plan made = plan(params, rows, workspace);
  Round round{};
  round.rows = {made.target, made.draft};
  round.drafted = params.drafted;
  round.uniforms = params.uniforms;
  round.greedy = !params.uniforms;
  round.normalized = params.normalized && params.uniforms;
  round.block = made.block.reach != nullptr;
  if (made.target.tile_max) RETURN_IF_FAILED(scan({round.rows, {}}, stream));
  if (made.target.tile_mass) RETURN_IF_FAILED(sum_masses(round, stream));
  const Verdicts verdicts{params.accept_length, nullptr, params.next_token};
  return judge({round, made.block, made.pairs, verdicts}, stream);
}

}  // namespace cuda
}  // namespace spec_decode_ops
