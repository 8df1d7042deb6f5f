// SPDX-License-Identifier: Apache-2.0
// Runs the kernels of csrc/cpu/ through their own interface and prints the target's name, then a
// hash of what each op gave for each vocabulary, dtype and family of rows, over all parameters and
// several alignments; last, how often a draft of three was accepted up to 0, 1, 2 and 3 tokens.
//   kernels [VOCABULARIES [BELOW]]     only these, e.g. 1,31,513; uniforms of accept below BELOW
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "cpu/target.h"
#include "kernel_bits/rows.h"

using namespace spec_decode_ops;
using rows::Family;
using rows::Rows;

namespace {

constexpr const char* kAllVocabularies = "1,2,31,511,512,513,999,1024,4097,20011";
constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
constexpr const char* kDTypeNames[] = {"float32", "float16", "bfloat16"};
#define NAME(name) #name,
constexpr const char* kFamilyNames[] = {FAMILIES(NAME)};
#undef NAME

constexpr Filter kFilters[] = {
    {1.0f, 0, 1.0, 0.0, 1.0f},   {0.7f, 0, 1.0, 0.0, 1.0f},   {1.0f, 50, 1.0, 0.0, 1.0f},
    {1.3f, 0, 0.95, 0.0, 1.0f},  {1.0f, 0, 0.5, 0.0, 1.0f},   {1.0f, 0, 1.0, 0.05, 1.0f},
    {0.8f, 40, 0.9, 0.02, 1.1f}, {0.9f, 0, 0.8, 0.0, 1.3f},   {1e-3f, 0, 0.9, 0.0, 1.0f},
    {1e6f, 0, 0.3, 0.5, 0.8f},   {0.0f, 0, 1.0, 0.0, 1.0f},   {0.0f, 5, 1.0, 0.0, 1.7f},
    {1.0f, 1, 1.0, 0.0, 1.0f},   {0.6f, 200, 1.0, 0.0, 1.2f}, {1.0f, 0, 1e-9, 0.0, 1.0f},
};
constexpr int kFilterCount = int(std::size(kFilters));
constexpr int kRows = 3, kDrafts = 3, kHistory = 24;

struct Hash {
  uint64_t value = 0;
  void add(uint64_t word) { value = bits::mix(value * 0x9e3779b97f4a7c15u + word); }
};

int64_t lengths[kDrafts + 1];
double uniforms_below = 1.0;

// Parameters that differ from row to row, beginning with filter `first`.
struct Parameters {
  float temperature[kRows], penalty[kRows];
  int64_t top_k[kRows], seed[kRows], offset[kRows], previous[kRows * kHistory];
  double top_p[kRows], min_p[kRows];

  Parameters(int first, int vocab, uint64_t index) {
    rows::Inputs in(index);
    for (int r = 0; r < kRows; ++r) {
      const Filter& filter = kFilters[(first + r) % kFilterCount];
      temperature[r] = filter.temperature;
      penalty[r] = filter.penalty;
      top_k[r] = filter.top_k;
      top_p[r] = filter.top_p;
      min_p[r] = filter.min_p;
      seed[r] = int64_t(in.word());
      offset[r] = int64_t(in.word() >> 4);
    }
    // With repeats, padding and ids outside the vocabulary.
    for (int64_t& id : previous) id = int64_t(in.below(uint64_t(vocab) + 2)) - 1;
  }

  FilterSet filters() const {
    return {{temperature, 1, 0},
            {top_k, 1, 0},
            {{nullptr, 0, 0}, {top_p, 1, 0}},
            {{nullptr, 0, 0}, {min_p, 1, 0}},
            {penalty, 1, 0},
            {previous, kHistory, 1, kHistory}};
  }
  Noise noise() const { return {{seed, 1, 0}, {offset, 1, 0}, true}; }
};

// What one line of output is about.
struct Subject {
  int vocab;
  DType dtype;
  Family family;
  int shift;
  uint64_t index;  // of its random inputs
};

void ask_rows(const Subject& subject, Hash& sampled, Hash& filtered, Hash& logprobs) {
  Rows logits(kRows, subject.vocab, subject.dtype, subject.shift);
  for (int r = 0; r < kRows; ++r) logits.fill(r, subject.family, subject.index + uint64_t(r));
  std::vector<float> out(size_t(kRows) * size_t(subject.vocab));
  for (int first = 0; first < kFilterCount; ++first) {
    const Parameters given(first, subject.vocab, subject.index + uint64_t(first));
    int64_t token[kRows];
    target().sample({token, logits.logits(1), given.filters(), given.noise()}, 0, kRows);
    for (int64_t t : token) sampled.add(uint64_t(t));
    float each[2][kRows];
    target().logprobs({each[0], each[1], logits.logits(1), {token, 1, 1, 1}, given.filters()}, 0,
                      kRows);
    for (const auto& law : each) {
      for (float y : law) logprobs.add(float_bits(y));
    }
    target().filter_logits({out.data(), logits.logits(1), given.filters()}, 0, kRows);
    for (float y : out) filtered.add(float_bits(y));
  }
}

// Target and draft rows of kRows sequences, and draft tokens. The draft of even positions is the
// target; some drafts end early, and the draft's vocabulary may be the narrower one.
struct Sequences {
  Rows target, draft;
  int64_t drafted[kRows * kDrafts];

  explicit Sequences(const Subject& subject)
      : target(kRows * (kDrafts + 1), subject.vocab, subject.dtype, subject.shift),
        draft(kRows * kDrafts, draft_vocab(subject), subject.dtype, 3 - subject.shift) {
    rows::Inputs in(subject.index);
    for (int i = 0; i < kRows * (kDrafts + 1); ++i) {
      target.fill(i, subject.family, subject.index + uint64_t(i));
    }
    for (int r = 0; r < kRows; ++r) {
      for (int d = 0; d < kDrafts; ++d) {
        const int i = r * kDrafts + d, same = r * (kDrafts + 1) + d;
        draft.fill(i, subject.family, subject.index + uint64_t(d % 2 ? same + 1000 : same));
        const uint32_t kind = in.below(8);
        drafted[i] = kind < 6   ? target.favourite(same)
                     : kind < 7 ? int64_t(in.below(uint64_t(subject.vocab)))
                                : -1;
      }
    }
  }

  static int draft_vocab(const Subject& subject) {
    return subject.shift % 2 ? (subject.vocab + 1) / 2 : subject.vocab;
  }
  Logits draft_or_none(bool wanted) {
    return wanted ? draft.logits(kDrafts) : Logits{nullptr, DType::kFloat32, 0, 0, 0};
  }
};

struct Method {
  Rule rule;
  bool has_draft;
};
constexpr Method kMethods[] = {
    {Rule::kToken, true}, {Rule::kToken, false}, {Rule::kBlock, true}, {Rule::kCoupled, false}};

void ask_verify(const Subject& subject, Hash& hash) {
  Sequences given(subject);
  const Tokens drafted{given.drafted, kDrafts, 1, kDrafts};
  for (int first = 0; first < kFilterCount; first += subject.vocab > 10000 ? 4 : 1) {
    const Parameters with(first, subject.vocab, subject.index + uint64_t(first));
    for (const Method& method : kMethods) {
      int64_t length[kRows], out[kRows * (kDrafts + 1)];
      target().verify(
          {length, out, given.target.logits(kDrafts + 1), given.draft_or_none(method.has_draft),
           drafted, with.filters(), with.noise(), nullptr, method.rule},
          0, kRows);
      for (int64_t n : length) hash.add(uint64_t(n)), ++lengths[n];
      for (int64_t token : out) hash.add(uint64_t(token));
    }
  }
}

void ask_accept(const Subject& subject, Hash& hash) {
  Sequences given(subject);
  const Tokens drafted{given.drafted, kDrafts, 1, kDrafts};
  rows::Inputs in(subject.index);
  for (int kind = 0; kind < 16; ++kind) {
    double uniforms[kRows * (kDrafts + 1)];
    for (double& u : uniforms) u = double(in.word() >> 11) * 0x1p-53 * uniforms_below;
    int64_t length[kRows], next[kRows];
    const Rule rule = kind < 12 ? Rule::kToken : Rule::kBlock;
    const bool greedy = kind >= 8 && rule == Rule::kToken, normalized = kind % 2 == 1;
    target().accept({length, next, given.target.logits(kDrafts + 1), given.draft_or_none(kind % 3),
                     drafted, greedy ? nullptr : uniforms, normalized, rule},
                    0, kRows);
    for (int64_t n : length) hash.add(uint64_t(n)), ++lengths[n];
    for (int64_t token : next) hash.add(uint64_t(token));
  }
}

void print(const char* op, const Subject& subject, const Hash& hash) {
  std::printf("%s %d %s %s %016" PRIx64 "\n", op, subject.vocab, kDTypeNames[int(subject.dtype)],
              kFamilyNames[int(subject.family)], hash.value);
  std::fflush(stdout);
}

void ask_all(int vocab, DType dtype, Family family) {
  Hash sampled, filtered, logprobs, verified, accepted;
  for (int part = 0; part < (vocab == 999 ? 2 : 1); ++part) {
    const uint64_t index = uint64_t(vocab) << 20 | uint64_t(family) << 12 | uint64_t(part) << 8;
    const int shift = (vocab + int(family) + part) % 4;
    const Subject subject{vocab, dtype, family, shift, index};
    ask_rows(subject, sampled, filtered, logprobs);
    ask_verify(subject, verified);
    ask_accept(subject, accepted);
  }
  const Subject subject{vocab, dtype, family, 0, 0};
  print("sample", subject, sampled);
  print("filter_logits", subject, filtered);
  print("logprobs", subject, logprobs);
  print("verify", subject, verified);
  print("accept", subject, accepted);
}

}  // namespace

int main(int argc, char** argv) {
  std::istringstream vocabularies(argc > 1 ? argv[1] : kAllVocabularies);
  if (argc > 2) uniforms_below = std::atof(argv[2]);
  std::printf("target %s\n", target().name);
  for (std::string vocab; std::getline(vocabularies, vocab, ',');) {
    for (DType dtype : kDTypes) {
      for (int family = 0; family < int(std::size(kFamilyNames)); ++family) {
        ask_all(std::stoi(vocab), dtype, Family(family));
      }
    }
  }
  for (int i = 0; i <= kDrafts; ++i) std::printf("accepted %d %" PRId64 "\n", i, lengths[i]);
}
