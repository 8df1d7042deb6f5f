// SPDX-License-Identifier: Apache-2.0
// Memory a thread keeps from call to call, so that a call allocates nothing once it is warm.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spec_decode_ops {

constexpr int kTile = 512;  // tokens
constexpr int kLanes = 16;  // tokens a vector step handles, on every target

// Sums of the masses of a target and a draft over the tokens that a residual keeps of a tile.
struct KeptMass {
  uint64_t p, q;
};

// What the block rule keeps of a draft token while the rows of others are read: its masses in both
// laws, the totals, and the share before it (common/block.h).
struct DraftedMass {
  uint64_t p, p_total, q, q_total, share;
};

// What reading one row needs. Arrays of `capacity` tokens, or of a value a tile.
struct RowSpace {
  float* patched;         // [capacity] tiles that differ from the caller's memory
  int32_t* patched_tile;  // [tiles] which of them stands for a tile, or what Row puts there
  uint64_t* penalised;    // [capacity / 64] bits; all zero between calls
  int32_t* penalised_id;  // [capacity]
  float* lane_max;        // [capacity / kTile * kLanes]
  uint64_t* tile_sum;     // [tiles]
  float* weight;          // [capacity] of a softmax law, once its tiles are summed
  int32_t* id;            // [capacity + kLanes] candidates, by ascending id
  float* y;               // [capacity + kLanes] their quotients
  uint64_t* mass;         // [capacity + kLanes] and masses
  int64_t capacity;       // a multiple of kTile
};

class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  // Room for rows of `vocab` tokens in every array. Throws std::bad_alloc and stays usable.
  void reserve(int64_t vocab);
  // Room for a draft of this length. Throws likewise.
  void reserve_drafted(int64_t drafts);

  RowSpace target{}, draft{};
  uint32_t* key = nullptr;         // [capacity] scratch of a selection
  int32_t* index = nullptr;        // [capacity]
  float* value[2] = {};            // [capacity + 2 * kLanes] each
  double* tile_excess = nullptr;   // [tiles]
  KeptMass* tile_kept = nullptr;   // [tiles]
  DraftedMass* drafted = nullptr;  // [drafts]

 private:
  void* memory_ = nullptr;
  int64_t drafts_ = 0;
};

// The calling thread's own.
Workspace& workspace();

}  // namespace spec_decode_ops
