// SPDX-License-Identifier: Apache-2.0
// How often floats call a draft token surely accepted or rejected, and how often the law
// (common/accept.h) says otherwise: prints both. Words u lie close to the boundary, within a
// hundredth of it. With -DCARELESS the target's sum is a hundredth too small.
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "common/accept.h"
#include "cpu/vec_generic.h"

#include "cpu/rough-inl.h"

using namespace spec_decode_ops;

namespace {

#if defined(CARELESS)
constexpr double kOfTarget = 0.99;
#else
constexpr double kOfTarget = 1.0;
#endif

std::mt19937_64 source(7);
double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(source);
}

// A row's exact law at one token, and its rough share.
struct Both {
  uint64_t token = 0, total = 0;
  Share share{};
};

Both of_logits(const std::vector<float>& x, int token, float temperature, RowSpace& space) {
  Row row(x.data(), DType::kFloat32, int64_t(x.size()), space);
  Question question{token};
  const MassScale scale = mass_scale(finite_maximum(row, temperature, question), temperature);
  Both both;
  for (float each : x) both.total += mass(each, scale);
  both.token = mass(x[size_t(token)], scale);
  both.share = question.share;
  return both;
}

Both of_probabilities(const std::vector<float>& p, int token, RowSpace& space) {
  Row row(p.data(), DType::kFloat32, int64_t(p.size()), space);
  const int exponent = probability_exponent(scan_maxima(row));
  Both both;
  for (float each : p) both.total += probability_mass(each, false, exponent);
  both.token = probability_mass(p[size_t(token)], false, exponent);
  both.share = share_of_probability(row, token);
  return both;
}

}  // namespace

int main() {
  Workspace& work = workspace();
  int sure = 0, wrong = 0;
  for (int round = 0; round < 4000; ++round) {
    const size_t vocab = size_t(uniform(1, 3000));
    const double width = std::exp(uniform(-3, 3)), unit = std::exp(uniform(-60, 60));
    const float temperature = float(std::exp(uniform(-2, 2)));
    const bool logits = round % 2;
    std::normal_distribution<double> normal(0, width);
    std::vector<float> rows[2] = {std::vector<float>(vocab), std::vector<float>(vocab)};
    for (auto& row : rows) {
      for (float& x : row) x = float(logits ? normal(source) : unit * std::exp(normal(source)));
    }
    work.reserve(int64_t(vocab));
    const int token = int(uniform(0, double(vocab)));
    const auto both = [&](int i, RowSpace& space) {
      return logits ? of_logits(rows[i], token, temperature, space)
                    : of_probabilities(rows[i], token, space);
    };
    Both p = both(0, work.target), q = both(1, work.draft);
    if (p.token == 0 || q.token == 0) continue;
    p.share.row *= kOfTarget;
    const double boundary = double(p.token) / double(p.total) * double(q.total) / double(q.token);
    const double near = logits ? 0.1 : 0.01;
    const double u = boundary * uniform(1.0 - near, 1.0 + near);
    if (u >= 1.0) continue;
    const bool accepted = surely_accepted(fraction_of(u), p.share, q.share);
    if (!accepted && !surely_rejected(fraction_of(u), p.share, q.share)) continue;
    ++sure;
    wrong += accepted != accepts(fraction_of(u), p.token, p.total, q.token, q.total);
  }
  std::printf("%d %d\n", sure, wrong);
}
