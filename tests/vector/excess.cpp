// SPDX-License-Identifier: Apache-2.0
// How often floats tell which token a residual draw gives (csrc/cpu/excess-inl.h), and how often
// integer masses then draw another: prints both. Fractions lie close to a token's boundary. Every
// other sum of probabilities is off by up to what the floats are told, and some drafts are one
// token. With -DCARELESS the target's total is a 16384th too large for the floats.
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "common/accept.h"
#include "cpu/vec_generic.h"

#include "cpu/accept-inl.h"
#include "cpu/verify-inl.h"

using namespace spec_decode_ops;

namespace {

#if defined(CARELESS)
constexpr double kOfTotal = 1.0 + 0x1p-14;
#else
constexpr double kOfTotal = 1.0;
#endif

std::mt19937_64 source(11);
double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(source);
}

enum class Kind { kLogits, kProbabilities, kNormalized };

struct Laws {
  Row target_row, draft_row;
  Law target, draft;

  Laws(const std::vector<float> (&rows)[2], Kind kind, Workspace& work)
      : target_row(rows[0].data(), DType::kFloat32, int64_t(rows[0].size()), work.target),
        draft_row(rows[1].data(), DType::kFloat32, int64_t(rows[1].size()), work.draft),
        target(law(target_row, kind)),
        draft(law(draft_row, kind)) {}

  static Law law(Row& row, Kind kind) {
    if (kind != Kind::kLogits) return law_of(row, kind == Kind::kNormalized, 0);
    Law law{};
    law.row = &row;
    law.kind = Law::kSoftmax;
    law.scale = mass_scale(finite_maximum(row), 1.0f);
    take_total(law);
    return law;
  }
};

// The part of the residual that lies before a token.
double boundary(const Law& target, const Law& draft, int token, Workspace& work) {
  const TokenResidual residual{target.total, draft.total};
  const auto real = [](Wide a) { return double(a.high) * 0x1p64 + double(a.low); };
  const double all = real(residual.weight(keep_tiles(target, draft, residual, work)));
  KeptMass before{0, 0};
  for (int i = 0; i < token; ++i) keep(residual, mass_of(target, i), mass_of(draft, i), before);
  return all > 0.0 ? real(residual.weight(before)) / all : 0.0;
}

int drawn_by_masses(const Law& target, const Law& draft, uint64_t fraction, Workspace& work) {
  const TokenResidual residual{target.total, draft.total};
  const KeptMass whole = keep_tiles(target, draft, residual, work);
  return draw_from_kept(target, draft, residual, whole, fraction, work);
}

// `off` is by how much the floats may believe the ratio of the sums to be off.
int drawn_by_floats(const Laws& laws, const Law& draft, double off, uint64_t fraction,
                    Workspace& work) {
  Law told = laws.target;
  if (kOfTotal != 1.0) told.total = uint64_t(double(told.total) * kOfTotal);
  if (draft.kind == Law::kOneToken) {
    const double sum = sum_of_probabilities(told);
    return surely_drawn_without(draft.token, laws.target_row, sum, fraction, work);
  }
  if (off == 0.0) return surely_drawn_from_laws(told, draft, fraction, work);
  const double sum = sum_of_probabilities(told) * (1.0 + off * uniform(-0.99, 0.99));
  return surely_drawn_from_probabilities(laws.target_row, sum, laws.draft_row,
                                         sum_of_probabilities(draft), off, fraction, work);
}

}  // namespace

int main() {
  Workspace& work = workspace();
  int sure = 0, wrong = 0;
  for (int round = 0; round < 3000; ++round) {
    const Kind kind = Kind(round % 3);
    const size_t vocab = size_t(std::exp(uniform(0, 8)));
    const double width = std::exp(uniform(-3, 2)), apart = width * std::exp(uniform(-5, 1));
    std::normal_distribution<double> normal(0, 1);
    std::vector<float> rows[2] = {std::vector<float>(vocab), std::vector<float>(vocab)};
    const double unit = kind == Kind::kLogits ? 1.0 : std::exp(uniform(-20, 20));
    for (size_t i = 0; i < vocab; ++i) {
      const double x = width * normal(source), y = x + apart * normal(source);
      const double scale = kind == Kind::kNormalized ? 1.0 / double(vocab) : unit;
      rows[0][i] = float(kind == Kind::kLogits ? x : scale * std::exp(x));
      rows[1][i] = float(kind == Kind::kLogits ? y : std::exp(y) / double(vocab));
    }
    const float odd[] = {NAN, -1.0f, 2.0f, kInfinity, -kInfinity, 0.0f};
    const float put = odd[size_t(uniform(0, 6))];
    if (round % 4 == 0 && !(kind == Kind::kLogits && put > 0.0f)) {
      rows[round / 4 % 2][size_t(uniform(0, double(vocab)))] = put;
    }
    rows[1].resize(size_t(uniform(1, double(vocab) + 1)));
    work.reserve(int64_t(vocab));
    Laws laws(rows, kind, work);
    if (laws.target.total == 0 || laws.draft.total == 0) continue;
    const int token = int(uniform(0, double(vocab)));
    const bool probabilities = kind == Kind::kProbabilities && !laws.target.infinite;
    const bool certain = probabilities && round % 5 == 0;
    const Law draft = certain ? one_token(int(uniform(0, double(vocab)))) : laws.draft;
    const double at = boundary(laws.target, draft, token, work);
    for (int i = 0; i < 8; ++i) {
      const double u = at + uniform(-1, 1) * std::exp2(uniform(-30, -8));
      if (!(u >= 0.0 && u < 1.0)) continue;
      const double off = i % 2 && probabilities && !laws.draft.infinite ? 0x1p-16 : 0.0;
      const int drawn = drawn_by_floats(laws, draft, off, fraction_of(u), work);
      if (drawn < 0) continue;
      ++sure;
      wrong += drawn != drawn_by_masses(laws.target, draft, fraction_of(u), work);
    }
  }
  std::printf("%d %d\n", sure, wrong);
}
