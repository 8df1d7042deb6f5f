// SPDX-License-Identifier: Apache-2.0
// Runs the kernels of csrc/cpu/ on random cases in fenced memory: each case by every target that is
// named, in a plain layout and in another, from a workspace that is new or was used before. All
// must give the same bits and touch nothing but what they were given. Prints a hash of all bits.
//   redzones                              prints the name of the best target
//   redzones TARGETS FIRST COUNT          e.g. redzones scalar,avx2 0 5000
//   redzones TARGETS FIRST COUNT LIE OP   tells OP's kernel something that is not so
// The lies, each of which has to be noticed: longer-rows, longer-ids, later-output, odd-address.
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "cpu/target.h"
#include "cpu/workspace.h"
#include "redzones/inputs.h"

using namespace redzones;

namespace {

std::string lie, lied_op;
volatile uint64_t current;

bool lies(const char* what, const char* op) { return lie == what && lied_op == op; }

void name_case() { std::fprintf(stderr, "case %" PRIu64 "\n", uint64_t(current)); }

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  name_case();
  std::exit(1);
}

int vocabulary(Inputs& in) {
  const uint32_t kind = in.below(8);
  if (kind == 0) return 1 + int(in.below(4));
  if (kind < 4) return 1 + int(in.below(40));
  if (kind < 6) return int(kind == 4 ? 500 : 1010) + int(in.below(30));
  return 1 + int(in.below(kind == 6 ? 1700 : 200));
}

DType any_dtype(Inputs& in) { return DType(in.below(3)); }

float any_temperature(Inputs& in) {
  constexpr float kSome[] = {1.0f, 0.7f, 1.3f, 0.0f, -1.0f, 1e-6f, 1e6f, 0x1p-149f, kMaxFloat};
  return in.below(3) ? kSome[in.below(std::size(kSome))] : in.any_float();
}
int64_t any_top_k(Inputs& in) {
  return in.below(4) ? int64_t(in.below(40)) - 1 : int64_t(in.count());
}
double any_share(Inputs& in) {
  constexpr double kSome[] = {1.0, 0.95, 0.5, 0.0, 1 - 0x1p-53, 0x1p-44, 1e-300, 1.5};
  return in.below(3) ? kSome[in.below(std::size(kSome))] : in.any_double();
}
float any_single_share(Inputs& in) { return float(in.fraction()); }
float any_penalty(Inputs& in) {
  constexpr float kSome[] = {1.0f, 1.0f, 1.3f, 0.5f, 0x1p-149f, kMaxFloat};
  return in.below(4) ? kSome[in.below(std::size(kSome))] : in.any_float();
}
int64_t any_word(Inputs& in) { return int64_t(in.count()); }

std::vector<int64_t> some_ids(Inputs& in, int count, int vocab) {
  std::vector<int64_t> ids;
  for (int i = 0; i < count; ++i) {
    const bool near = in.below(8) > 0;
    ids.push_back(near ? int64_t(in.below(uint64_t(vocab) + 2)) - 1 : int64_t(in.count()));
  }
  return ids;
}

template <class T, class Value>
std::vector<T> some(Inputs& in, int count, Value value) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) values.push_back(value(in));
  return values;
}

struct Filters {
  Parameter<float> temperature;
  Parameter<int64_t> top_k;
  Parameter<float> top_p_single;
  Parameter<double> top_p, min_p;
  Parameter<float> penalty;
  int length;
  bool shared;
  Spaced<int64_t> previous;
  bool single;

  Filters(Inputs& in, int rows, int vocab, Layout& layout)
      : temperature(in, rows, layout, any_temperature),
        top_k(in, rows, layout, any_top_k),
        top_p_single(in, rows, layout, any_single_share),
        top_p(in, rows, layout, any_share),
        min_p(in, rows, layout, any_share),
        penalty(in, rows, layout, any_penalty),
        length(lie == "longer-ids" ? 8 : int(in.below(10))),
        shared(in.below(2)),
        previous(some_ids(in, shared ? length : rows * length, vocab), layout),
        single(in.below(4) == 0) {}

  FilterSet get(const char* op) const {
    FilterSet set{};
    set.temperature = temperature.get();
    set.top_k = top_k.get();
    if (single) set.top_p.single = top_p_single.get();
    set.top_p.exact = top_p.get();
    set.min_p.exact = min_p.get();
    set.penalty = penalty.get();
    if (length) {
      const int64_t row_stride = shared ? 0 : length * previous.stride();
      set.previous = {previous.data(), row_stride, previous.stride(), length};
    }
    if (lies("longer-ids", op)) {
      set.penalty = {nullptr, 0, 1.5f};
      ++set.previous.length;
    }
    return set;
  }
};

struct NoiseOf {
  Parameter<int64_t> seed, offset;
  bool stream_per_row;
  NoiseOf(Inputs& in, int rows, Layout& layout)
      : seed(in, rows, layout, any_word),
        offset(in, rows, layout, any_word),
        stream_per_row(in.below(2)) {}
  Noise get() const { return {seed.get(), offset.get(), stream_per_row}; }
};

Logits told(Logits logits, const char* op) {
  if (lies("longer-rows", op)) ++logits.vocab;
  if (lies("odd-address", op)) logits.data = static_cast<const char*>(logits.data) - 1;
  return logits;
}

template <class T>
T* told(Room<T>& room, const char* op) {
  return room.data() + (lies("later-output", op) ? 1 : 0);
}

Family any_family(Inputs& in) { return Family(in.below(uint64_t(Family::patterns) + 1)); }

using Answer = std::vector<uint64_t>;

bool ask_rows(Inputs& in, Layout& layout, Answer& answer) {
  const int rows = 1 + int(in.below(3)), vocab = vocabulary(in);
  const bool same = in.below(4) == 0;
  const DType dtype = any_dtype(in);
  const Family family = any_family(in);
  const Block logits(rows, vocab, dtype, family, in.word(), same, layout);
  const Filters filters(in, rows, vocab, layout);
  const NoiseOf noise(in, rows, layout);
  Room<int64_t> token(rows, layout);
  Room<float> filtered(rows * vocab, layout);
  target().sample(
      {told(token, "sample"), told(logits.logits(1), "sample"), filters.get("sample"), noise.get()},
      0, rows);
  const char* op = "filter_logits";
  target().filter_logits({told(filtered, op), told(logits.logits(1), op), filters.get(op)}, 0,
                         rows);
  const Spaced<int64_t> tokens(some_ids(in, rows, vocab), layout);
  Room<float> kept(rows, layout), all(rows, layout);
  op = "logprobs";
  target().logprobs({told(kept, op),
                     all.data(),
                     told(logits.logits(1), op),
                     {tokens.data(), tokens.stride(), 1, 1},
                     filters.get(op)},
                    0, rows);
  return token.take(answer) & filtered.take(answer) & kept.take(answer) & all.take(answer);
}

// Target and draft rows, and draft tokens.
struct Sequences {
  int rows, drafts, vocab, draft_vocab;
  bool same, has_draft;
  Family family;
  DType dtype, draft_dtype;
  uint64_t index, draft_index;
  Block target, draft;
  Spaced<int64_t> ids;

  Sequences(Inputs& in, Layout& layout)
      : rows(1 + int(in.below(3))),
        drafts(int(in.below(4))),
        vocab(vocabulary(in)),
        draft_vocab(in.below(3) ? vocab : vocabulary(in)),
        same(in.below(8) == 0),
        has_draft(in.below(3) > 0),
        family(any_family(in)),
        dtype(any_dtype(in)),
        draft_dtype(any_dtype(in)),
        index(in.word()),
        draft_index(in.below(2) ? index : in.word()),
        target(rows * (drafts + 1), vocab, dtype, family, index, same, layout),
        draft(rows * drafts, draft_vocab, draft_dtype, family, draft_index, same, layout),
        ids(some_ids(in, rows * drafts, vocab), layout) {}

  Logits draft_or_none() const {
    return has_draft ? draft.logits(drafts) : Logits{nullptr, DType::kFloat32, 0, 0, 0};
  }
  Tokens tokens() const { return {ids.data(), drafts * ids.stride(), ids.stride(), drafts}; }
};

bool ask_verify(Inputs& in, Layout& layout, Answer& answer) {
  const Sequences given(in, layout);
  const int count = given.rows * (given.drafts + 1);
  const Filters filters(in, given.rows, given.vocab, layout);
  const NoiseOf noise(in, given.rows, layout);
  Fenced words(size_t(count) * sizeof(int64_t), layout.at_end());
  std::memcpy(words.data(), some<int64_t>(in, count, any_word).data(), size_t(count) * 8);
  words.seal();
  const auto* own_words = in.below(2) ? reinterpret_cast<const int64_t*>(words.data()) : nullptr;
  const Rule rule = Rule(in.below(3));
  Room<int64_t> length(given.rows, layout), out(count, layout);
  target().verify(
      {length.data(), told(out, "verify"), told(given.target.logits(given.drafts + 1), "verify"),
       given.draft_or_none(), given.tokens(), filters.get("verify"), noise.get(), own_words, rule},
      0, given.rows);
  return length.take(answer) & out.take(answer);
}

bool ask_accept(Inputs& in, Layout& layout, Answer& answer) {
  const Sequences given(in, layout);
  const int count = given.rows * (given.drafts + 1);
  Fenced uniforms(size_t(count) * sizeof(double), layout.at_end());
  const auto fraction = [](Inputs& from) { return from.fraction(); };
  std::memcpy(uniforms.data(), some<double>(in, count, fraction).data(), size_t(count) * 8);
  uniforms.seal();
  const auto* own = in.below(4) ? reinterpret_cast<const double*>(uniforms.data()) : nullptr;
  const bool normalized = in.below(3) == 0;
  const Rule rule = in.below(3) ? Rule::kToken : Rule::kBlock;
  Room<int64_t> length(given.rows, layout), next(given.rows, layout);
  target().accept(
      {length.data(), told(next, "accept"), told(given.target.logits(given.drafts + 1), "accept"),
       given.draft_or_none(), given.tokens(), own, normalized, rule},
      0, given.rows);
  return length.take(answer) & next.take(answer);
}

void forget_workspace() {
  Workspace& own = workspace();
  own.~Workspace();
  new (&own) Workspace;
}

Answer ask(uint64_t index, bool plain) {
  Inputs in(index);
  Layout layout(plain, index);
  if (in.below(4) || !lie.empty()) forget_workspace();
  Answer answer;
  const uint32_t kind = in.below(3);
  const bool intact = kind == 0   ? ask_rows(in, layout, answer)
                      : kind == 1 ? ask_verify(in, layout, answer)
                                  : ask_accept(in, layout, answer);
  if (!intact) fail("a kernel wrote outside its results");
  return answer;
}

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> found;
  for (size_t from = 0; from <= names.size();) {
    const size_t to = std::min(names.find(',', from), names.size());
    found.push_back(names.substr(from, to - from));
    from = to + 1;
  }
  return found;
}

void on_fault(int) {
  name_case();
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return std::puts(target().name) < 0;
  if (argc != 4 && argc != 6) return 2;
  const std::vector<std::string> targets = split(argv[1]);
  const uint64_t first = std::strtoull(argv[2], nullptr, 10);
  const uint64_t count = std::strtoull(argv[3], nullptr, 10);
  if (argc == 6) lie = argv[4], lied_op = argv[5];
#if defined(__SANITIZE_ADDRESS__)
  __asan_set_death_callback(name_case);
  (void)on_fault;
#else
  std::signal(SIGSEGV, on_fault);
#endif
  uint64_t hash = 0;
  for (current = first; current < first + count; current = current + 1) {
    Answer expected;
    for (const bool plain : {true, false}) {
      for (const std::string& name : targets) {
        force_target(name);
        Answer answer = ask(current, plain);
        if (expected.empty())
          expected = std::move(answer);
        else if (answer != expected)
          fail("targets or layouts differ");
      }
    }
    for (uint64_t word : expected) hash = bits::mix(hash * 0x9e3779b97f4a7c15u + word);
  }
  std::printf("%016" PRIx64 "\n", hash);
}
