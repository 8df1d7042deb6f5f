// SPDX-License-Identifier: Apache-2.0
// Times kernels alone, without torch: each function runs its kernel once for every entry of
// `microseconds` and writes there what that run took. Draws take the seeds 0, 1, 2, ...
#include <chrono>
#include <cstddef>

#include "cpu/float_mode.h"
#include "cpu/target.h"

using namespace spec_decode_ops;

namespace {

// Rows of logits or probabilities, as benchmarks/clock.py lays them out.
struct Rows {
  const void* data;
  int64_t dtype, positions, vocab;
  Logits logits() const { return {data, DType(dtype), positions * vocab, vocab, vocab}; }
};

struct FilterValues {
  double temperature;
  int64_t top_k;
  double top_p, min_p, penalty;
  const int64_t* previous;
  int64_t previous_count;
  FilterSet set() const {
    FilterSet set{};
    set.temperature = {nullptr, 0, float(temperature)};
    set.top_k = {nullptr, 0, top_k};
    set.top_p.exact = {nullptr, 0, top_p};
    set.min_p.exact = {nullptr, 0, min_p};
    set.penalty = {nullptr, 0, float(penalty)};
    set.previous = {previous, 0, 1, previous_count};
    return set;
  }
};

Noise noise(int64_t seed) { return {{nullptr, 0, seed}, {nullptr, 0, 0}, true}; }

template <class Kernel>
void time_runs(double* microseconds, int64_t runs, Kernel kernel) {
  const FloatMode to_nearest;
  for (int64_t run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    kernel(run);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    microseconds[run] = took.count();
  }
}

}  // namespace

extern "C" {

// Returns whether this machine has the target; "" is the best one.
bool clock_use_target(const char* name) {
  try {
    force_target(name);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

const char* clock_target() { return target().name; }

void clock_largest(const Rows* x, int64_t rows, double* microseconds, int64_t runs) {
  volatile float sink;
  Logits logits = x->logits();
  logits.row_stride = logits.vocab;
  time_runs(microseconds, runs, [&](int64_t) {
    for (int64_t row = 0; row < rows; ++row) sink = target().largest(logits, row);
  });
}

void clock_sample(const Rows* x, const FilterValues* filter, int64_t* token, double* microseconds,
                  int64_t runs) {
  time_runs(microseconds, runs, [&](int64_t run) {
    target().sample({token, x->logits(), filter->set(), noise(run)}, 0, 1);
  });
}

void clock_filter_logits(const Rows* x, const FilterValues* filter, float* out,
                         double* microseconds, int64_t runs) {
  time_runs(microseconds, runs,
            [&](int64_t) { target().filter_logits({out, x->logits(), filter->set()}, 0, 1); });
}

void clock_verify(const Rows* target_rows, const Rows* draft_rows, const int64_t* drafted,
                  const FilterValues* filter, int64_t coupled, int64_t* out, double* microseconds,
                  int64_t runs) {
  int64_t accept_length;
  time_runs(microseconds, runs, [&](int64_t run) {
    VerifyParams p{};
    p.accept_length = &accept_length;
    p.out = out;
    p.target = target_rows->logits();
    if (draft_rows) p.draft = draft_rows->logits();
    p.drafted = {drafted, 0, 1, target_rows->positions - 1};
    p.filter = filter->set();
    p.noise = noise(coupled ? 0 : run);
    p.rule = coupled ? Rule::kCoupled : Rule::kToken;
    target().verify(p, 0, 1);
  });
}

// Without uniforms: greedy.
void clock_accept(const Rows* target_rows, const Rows* draft_rows, const int64_t* drafted,
                  const double* uniforms, int64_t normalized, double* microseconds, int64_t runs) {
  int64_t accept_length, next_token;
  AcceptParams p{};
  p.accept_length = &accept_length;
  p.next_token = &next_token;
  p.target = target_rows->logits();
  if (draft_rows) p.draft = draft_rows->logits();
  p.drafted = {drafted, 0, 1, target_rows->positions - 1};
  p.uniforms = uniforms;
  p.normalized = normalized != 0;
  time_runs(microseconds, runs, [&](int64_t) { target().accept(p, 0, 1); });
}
}
