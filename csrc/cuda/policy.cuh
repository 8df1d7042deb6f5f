// SPDX-License-Identifier: Apache-2.0
// How the work is cut, and which of the two ways is taken. Nothing here changes a token.
#pragma once

#include "cuda/ops.h"

namespace spec_decode_ops {
namespace cuda {

constexpr int kWarp = 32;

// A block of a row-wide pass: 16 tokens a thread, all loaded before the first is used. With 4
// blocks on an SM, 64 kB of float32 logits are in flight, or half of that in 16 bits: what 700 ns
// of latency ask of an H200 are 51 kB.
constexpr int kThreads = 256;
constexpr int kTokensPerThread = 16;
constexpr int kBlocksPerSm = 4;
constexpr int kChunk = kThreads * kTokensPerThread;
// The tokens that a warp of such a block holds.
constexpr int kStrip = kWarp * kTokensPerThread;
constexpr int kStripsPerChunk = kThreads / kWarp;

// The tokens that one maximum, or one mass, is kept for: four warp-wide loads.
constexpr int kTile = 128;
constexpr int kTilesPerStrip = kStrip / kTile;
constexpr int kTilesPerChunk = kChunk / kTile;
constexpr int kLoadsPerTile = kTile / kWarp;
constexpr uint32_t kAllTiles = (1u << kTilesPerStrip) - 1;  // of a strip, a bit each

// A block that finishes one row.
constexpr int kRowThreads = 256;
// Candidates it keeps in shared memory; with more of them it reads the row again at each step.
constexpr int kCandidates = 4096;

// Bins of a row's mass by distance from its largest logit.
constexpr int kBins = 512;

// The sort's rows go in groups of at most so many rows and tokens: 256 MB of keys and ids.
constexpr int64_t kSortRows = 256;
constexpr int64_t kSortTokens = int64_t(1) << 24;

// Sorting never reads less than selecting does, and takes more launches: it is there to be compared
// with (and by the model of benchmarks/model.py never the faster of the two).
inline Algorithm choose(Algorithm algorithm) {
  return algorithm == Algorithm::kAuto ? Algorithm::kSelect : algorithm;
}

}  // namespace cuda
}  // namespace spec_decode_ops
