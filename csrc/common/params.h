// SPDX-License-Identifier: Apache-2.0
// What the kernels are given. The binding fills these structs, CPU and CUDA kernels read them.
// Strides count elements; the last dimension of logits is contiguous. Pointers may be unaligned to
// anything but their own type.
#pragma once

#include "common/draw.h"
#include "common/dtype.h"

namespace spec_decode_ops {

// What one row is filtered with.
struct Filter {
  float temperature;  // <= 0: greedy
  int64_t top_k;      // <= 0: off
  double top_p;       // >= 1: off
  double min_p;       // <= 0: off
  float penalty;      // 1: off
};

// Entries of parameter tensors cannot raise: those without meaning count as off.
HOST_DEVICE Filter with_meaning(Filter filter) {
  if (!(filter.temperature <= kMaxFloat)) filter.temperature = 1.0f;
  if (!(filter.top_p < 1.0)) filter.top_p = 1.0;
  if (!(filter.min_p > 0.0)) filter.min_p = 0.0;
  if (!(filter.penalty > 0.0f && filter.penalty <= kMaxFloat)) filter.penalty = 1.0f;
  return filter;
}

HOST_DEVICE bool greedy(const Filter& filter) { return filter.temperature <= 0.0f; }

HOST_DEVICE bool has_top_k(const Filter& filter, int64_t vocab) {
  return filter.top_k > 0 && filter.top_k < vocab;
}
HOST_DEVICE bool has_top_p(const Filter& filter) { return filter.top_p < 1.0; }
HOST_DEVICE bool has_min_p(const Filter& filter) { return filter.min_p > 0.0; }

HOST_DEVICE bool keeps_everything(const Filter& filter, int64_t vocab) {
  return !has_top_k(filter, vocab) && !has_top_p(filter) && !has_min_p(filter);
}

// A parameter that is one value, or one value a row.
template <class T>
struct PerRow {
  const T* values;  // nullptr: `scalar` for every row
  int64_t stride;
  T scalar;
  HOST_DEVICE_MEMBER T at(int64_t row) const { return values ? values[row * stride] : scalar; }
};

// The same for probabilities, whose tensors are float32 or float64.
struct PerRowReal {
  PerRow<float> single;
  PerRow<double> exact;  // used where `single` has no tensor
  HOST_DEVICE_MEMBER double at(int64_t row) const {
    return single.values ? double(single.at(row)) : exact.at(row);
  }
};

struct Tokens {
  const int64_t* ids;  // [rows, length]; nullptr: none
  int64_t row_stride, stride, length;
  HOST_DEVICE_MEMBER const int64_t* row(int64_t row) const { return ids + row * row_stride; }
  HOST_DEVICE_MEMBER int64_t at(int64_t row, int64_t i) const {
    return ids[row * row_stride + i * stride];
  }
};

struct Logits {
  const void* data;  // [rows, positions, vocab]; nullptr: none
  DType dtype;
  int64_t row_stride, position_stride;
  int64_t vocab;  // 1 .. 2^20
};

// Whether a draft token is one of either model's. One that the target lacks has p = 0 there: it is
// rejected like any other, and does not end the draft.
HOST_DEVICE bool in_vocabulary(int64_t token, const Logits& target, const Logits& draft) {
  return token >= 0 && (token < target.vocab || token < draft.vocab);
}

struct FilterSet {
  PerRow<float> temperature;
  PerRow<int64_t> top_k;
  PerRowReal top_p, min_p;
  PerRow<float> penalty;
  Tokens previous;
  HOST_DEVICE_MEMBER Filter at(int64_t row) const {
    return with_meaning(
        {temperature.at(row), top_k.at(row), top_p.at(row), min_p.at(row), penalty.at(row)});
  }
};

struct Noise {
  PerRow<int64_t> seed;    // taken mod 2^64
  PerRow<int64_t> offset;  // taken mod 2^60
  bool stream_per_row;     // false: every row is stream 0, as each has its own seed
  HOST_DEVICE_MEMBER Place at(int64_t row) const {
    return {uint64_t(seed.at(row)), uint64_t(offset.at(row)) % kOffsetLimit,
            stream_per_row ? uint32_t(row) : 0u};
  }
};

struct SampleParams {
  int64_t* token;  // [rows]
  Logits logits;
  FilterSet filter;
  Noise noise;
};

struct FilterParams {
  float* out;  // [rows, vocab], contiguous
  Logits logits;
  FilterSet filter;
};

enum class Rule : int32_t { kToken, kBlock, kCoupled };

struct VerifyParams {
  int64_t* accept_length;  // [rows]
  int64_t* out;            // [rows, drafts + 1], contiguous
  Logits target;           // drafts + 1 positions
  Logits draft;            // drafts positions
  Tokens drafted;          // [rows, drafts]
  FilterSet filter;
  Noise noise;
  const int64_t* words;  // [rows, drafts + 1] in place of Philox, or nullptr; a test entry
  Rule rule;
};

// Verification of ready probabilities; one sequence a row.
struct AcceptParams {
  int64_t* accept_length;  // [rows]
  int64_t* next_token;     // [rows]
  Logits target;           // drafts + 1 positions
  Logits draft;            // drafts positions
  Tokens drafted;          // [rows, drafts]
  const double* uniforms;  // [rows, drafts + 1] in [0, 1); nullptr: greedy
  bool normalized;
  Rule rule;  // kToken or kBlock
};

// Log-probabilities of tokens that were emitted, of which position i has seen the first i.
struct LogprobParams {
  float* filtered;    // [rows, positions], contiguous; NaN where there is no token
  float* unfiltered;  // the same
  Logits logits;
  Tokens tokens;  // [rows, positions]
  FilterSet filter;
};

}  // namespace spec_decode_ops
