// SPDX-License-Identifier: Apache-2.0
// verify: speculative sampling from logits, and the coupled rule (Daliri et al. 2024), under which
// position i emits what `sample` would draw there and the draft goes on while it agrees.
//
// By ratio, as a block or token by token: a scan of all rows, their cuts where a filter may be on,
// their masses, and the judgement. Coupled: `sample` over the target's rows, and a walk along them.
#include "cuda/cuts.cuh"
#include "cuda/judge.cuh"
#include "cuda/mass.cuh"
#include "cuda/plan.cuh"
#include "cuda/sample.cuh"
#include "cuda/scan.cuh"

namespace spec_decode_ops {
namespace cuda {

struct FollowParams {
  const int64_t* token;  // [positions, sequences] what `sample` draws
  Tokens drafted;
  int64_t sequences;
  int64_t* accept_length;
  int64_t* out;
};

// One thread a sequence.
__global__ void __launch_bounds__(kThreads) follow_kernel(const __grid_constant__ FollowParams p) {
  const int64_t sequence = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (sequence >= p.sequences) return;
  const int64_t drafts = p.drafted.length;
  int64_t* out = p.out + sequence * (drafts + 1);
  int64_t position = 0;
  for (;; ++position) {
    const int64_t token = p.token[position * p.sequences + sequence];
    out[position] = token;
    const bool agrees =
        position < drafts && token >= 0 && token == p.drafted.at(sequence, position);
    if (!agrees) break;
  }
  p.accept_length[sequence] = position;
  for (int64_t i = position + 1; i <= drafts; ++i) out[i] = -1;
}

namespace {

struct Plan {
  SamplePlan coupled;  // of the coupled rule, with its tokens
  int64_t* token;
  CutPlan target, draft;  // of the other rules
  BlockSpace block;       // of the block rule, else empty
  PairSpace pairs;
  size_t bytes;
};

CutPlan plan_law(const Logits& logits, int64_t rows, int64_t positions, const VerifyParams& p,
                 Algorithm algorithm, Arena& arena) {
  RowGroup group = new_group(logits, rows, positions, p.filter, p.drafted, arena);
  if (!must_be_greedy(p.filter)) add_law_masses(group, arena);
  return plan_cuts(group, may_cut(p.filter, logits.vocab), algorithm, arena);
}

Plan plan(const VerifyParams& p, int64_t rows, Algorithm algorithm, void* workspace) {
  Arena arena(workspace);
  Plan plan{};
  const int64_t positions = p.drafted.length + 1;
  if (p.rule == Rule::kCoupled) {
    plan.coupled = plan_sample(p.target, rows, positions, p.filter, p.drafted, algorithm, arena);
    plan.token = arena.take<int64_t>(rows * positions);
  } else {
    plan.target = plan_law(p.target, rows, positions, p, algorithm, arena);
    if (!must_be_greedy(p.filter)) {
      if (p.draft.data) {
        plan.draft = plan_law(p.draft, rows, positions - 1, p, algorithm, arena);
      }
      add_judgement(plan.target.group, arena);
      const RowPair rows{plan.target.group, plan.draft.group};
      const bool by_block = p.rule == Rule::kBlock && rows.draft.rows() > 0;
      if (by_block) plan.block = new_block_space(rows, arena);
      plan.pairs = new_pair_space(rows, by_block, false, arena);
    }
  }
  plan.bytes = arena.bytes();
  return plan;
}

cudaError_t follow(const VerifyParams& p, int64_t rows, const Plan& plan, cudaStream_t stream) {
  RETURN_IF_FAILED(sample_rows(plan.coupled, p.noise, plan.token, stream));
  const Grid grid{(rows + kThreads - 1) / kThreads, 1, 1};
  return launch(follow_kernel, grid, kThreads, stream,
                FollowParams{plan.token, p.drafted, rows, p.accept_length, p.out});
}

cudaError_t by_ratio(const VerifyParams& p, const Plan& plan, cudaStream_t stream) {
  Round round{};
  round.rows = {plan.target.group, plan.draft.group};
  round.drafted = p.drafted;
  round.noise = p.noise;
  round.words = p.words;
  round.block = plan.block.reach != nullptr;
  RETURN_IF_FAILED(scan({round.rows, p.noise}, stream));
  RETURN_IF_FAILED(find_cuts(plan.target, plan.draft, stream));
  if (round.rows.target.tile_mass) RETURN_IF_FAILED(sum_masses(round, stream));
  const Verdicts verdicts{p.accept_length, p.out, nullptr};
  return judge({round, plan.block, plan.pairs, verdicts}, stream);
}

}  // namespace

size_t verify_workspace(const VerifyParams& params, int64_t rows, Algorithm algorithm) {
  return plan(params, rows, algorithm, nullptr).bytes;
}

cudaError_t verify(const VerifyParams& params, int64_t rows, Algorithm algorithm, void* workspace,
                   cudaStream_t stream) {
  const Plan made = plan(params, rows, algorithm, workspace);
  if (params.rule == Rule::kCoupled) return follow(params, rows, made, stream);
  return by_ratio(params, made, stream);
}

}  // namespace cuda
}  // namespace spec_decode_ops
