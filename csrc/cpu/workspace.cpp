// SPDX-License-Identifier: Apache-2.0
#include "cpu/workspace.h"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace spec_decode_ops {
namespace {

// A test's build by AddressSanitizer has memory between the pieces that nobody may touch.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kApart = 64;
void fence(char* from, char* to) { __asan_poison_memory_region(from, size_t(to - from)); }
#else
constexpr size_t kApart = 0;
void fence(char*, char*) {}
#endif

// Hands out aligned pieces of a block; with no block it only measures.
class Pieces {
 public:
  explicit Pieces(void* block) : block_(static_cast<char*>(block)) {}

  template <class T>
  void take(T*& piece, int64_t count) {
    piece = block_ ? reinterpret_cast<T*>(block_ + used_) : nullptr;
    const size_t end = used_ + sizeof(T) * size_t(count);
    used_ = (end + 63) / 64 * 64 + kApart;
    if (block_) fence(block_ + end, block_ + used_);
  }
  size_t used() const { return used_; }

 private:
  char* block_;
  size_t used_ = 0;
};

void take_row(Pieces& pieces, RowSpace& row, int64_t capacity) {
  const int64_t tiles = capacity / kTile;
  row.capacity = capacity;
  pieces.take(row.patched, capacity);
  pieces.take(row.patched_tile, tiles);
  pieces.take(row.penalised, capacity / 64);
  pieces.take(row.penalised_id, capacity);
  pieces.take(row.lane_max, tiles * kLanes);
  pieces.take(row.tile_sum, tiles);
  pieces.take(row.weight, capacity);
  pieces.take(row.id, capacity + kLanes);
  pieces.take(row.y, capacity + kLanes);
  pieces.take(row.mass, capacity + kLanes);
}

}  // namespace

Workspace::~Workspace() {
  std::free(memory_);
  std::free(drafted);
}

void Workspace::reserve(int64_t vocab) {
  const int64_t capacity = (vocab + kTile - 1) / kTile * kTile;
  if (capacity <= target.capacity) return;
  const auto lay_out = [&](Workspace& space, void* block) {
    Pieces pieces(block);
    take_row(pieces, space.target, capacity);
    take_row(pieces, space.draft, capacity);
    pieces.take(space.key, capacity);
    pieces.take(space.index, capacity);
    for (float*& value : space.value) pieces.take(value, capacity + 2 * kLanes);
    pieces.take(space.tile_excess, capacity / kTile);
    pieces.take(space.tile_kept, capacity / kTile);
    return pieces.used();
  };
  Workspace measured;
  const size_t size = lay_out(measured, nullptr);
  void* block = std::aligned_alloc(64, size);
  if (!block) throw std::bad_alloc();
  std::free(memory_);
  memory_ = block;
  lay_out(*this, block);
  std::memset(target.penalised, 0, sizeof(uint64_t) * size_t(capacity / 64));
  std::memset(draft.penalised, 0, sizeof(uint64_t) * size_t(capacity / 64));
}

void Workspace::reserve_drafted(int64_t drafts) {
  if (drafts <= drafts_) return;
  void* larger = std::realloc(drafted, sizeof(DraftedMass) * size_t(drafts));
  if (!larger) throw std::bad_alloc();
  drafted = static_cast<DraftedMass*>(larger);
  drafts_ = drafts;
}

Workspace& workspace() {
  static thread_local Workspace own;
  return own;
}

}  // namespace spec_decode_ops
