// SPDX-License-Identifier: Apache-2.0
#include "shadow.h"

#include <algorithm>

namespace emulator {
namespace {

constexpr uint32_t kWhoBits = 2, kHowBits = 2, kThreadBits = 10, kBlockBits = 18;
constexpr uint32_t kThreadAt = kHowBits + kWhoBits, kBlockAt = kThreadAt + kThreadBits;
// Blocks are told apart modulo this many; of two that look the same a race may go unseen.
constexpr uint32_t kBlocks = 1u << kBlockBits;

Time time_of(uint64_t word) { return Time(word >> 32); }

// The how that leaves the least room for others beside it.
Trace::How strictest(Trace::How a, Trace::How b) {
  constexpr int kStrictness[] = {2, 0, 1, 3};  // of Trace::How's values
  return kStrictness[a] >= kStrictness[b] ? a : b;
}

}  // namespace

inline Shadow::Word Shadow::pack(const Trace& t) {
  return Word(t.time) << 32 | Word(t.block % kBlocks) << kBlockAt | t.thread << kThreadAt |
         t.who << kHowBits | t.how;
}

inline Trace Shadow::unpack(Word word) {
  return {time_of(word), uint32_t(word >> kBlockAt) % kBlocks,
          uint32_t(word >> kThreadAt) % (1u << kThreadBits), Trace::Who(word >> kHowBits & 3),
          Trace::How(word & 3)};
}

// An actor, once for all cells of a touch.
struct Shadow::Context {
  Actor actor;
  Trace::Who who;
  const BlockOrder* order;
  ShadowRules rules;
  Word block, synced;  // as they stand in a word

  Word trace(Trace::How how) const {
    return pack({actor.now, actor.block, actor.thread, who, how});
  }
};

void Shadow::begin(Time since) {
  since_ = since;
  groups_.clear();
  if (cells_.empty()) cells_.resize((((bytes_ + 15) >> shift_)) + 1);
}

void Shadow::refine(uint32_t element_bytes) {
  while (1u << shift_ > element_bytes) {
    std::vector<Cell> finer;
    finer.reserve(2 * cells_.size());
    for (const Cell& cell : cells_) finer.insert(finer.end(), 2, cell);
    cells_.swap(finer);
    --shift_;
  }
}

// Long past, so that there is nothing to look for: before the launch, or, in this block, before its
// last barrier.
inline bool Shadow::is_past(const Context& c, Word word) const {
  constexpr Word kBlockMask = Word(kBlocks - 1) << kBlockAt;
  const bool alone = (word >> kHowBits & 3) != Trace::kBlocks;
  const bool coherent = (word & 3) != Trace::kNonCoherent;
  const bool before = (word < c.synced) & ((word & kBlockMask) == c.block) & alone & coherent;
  return (word < Word(since_) << 32) | before;
}

inline bool Shadow::is_quiet(const Context& c, const Touch& touch, const Cell& cell) const {
  const bool fresh = cell.wrote < Word(since_) << 32;
  const bool well =
      touch.how == Trace::kNonCoherent ? fresh : !(fresh & touch.reads & c.rules.uninitialized);
  return is_past(c, cell.wrote) & is_past(c, cell.read) & well;
}

// All lanes, side by side. False if the cells have to be looked at one by one.
bool Shadow::touch_quietly(const Context& c, const Touch& touch) {
  const size_t per_lane = touch.bytes >> shift_;
  Cell* cells = &cells_[(touch.address - base_) >> shift_];
  bool quiet = true;
  for (size_t i = 0; i < per_lane * 32; ++i) quiet &= is_quiet(c, touch, cells[i]);
  if (!quiet) return false;
  const Word mine = c.trace(touch.how);
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < per_lane; ++i) {
      Cell& cell = cells[lane * per_lane + i];
      (touch.writes ? cell.wrote : cell.read) = mine + (lane << kThreadAt);
    }
  }
  return true;
}

bool Shadow::is_ordered(const Context& c, const Trace& t) const {
  if (t.block != c.actor.block % kBlocks) return c.order && c.order->has_seen(c.actor, t);
  if (t.time < c.actor.block_synced) return true;
  if (t.who == Trace::kBlock || t.warp() != c.actor.warp()) return false;
  if (!c.rules.within_warps || t.time < c.actor.warp_synced) return true;
  return t.who == Trace::kThread && c.who == Trace::kThread && t.thread == c.actor.thread;
}

Conflict Shadow::find_conflict(const Context& c, const Touch& touch, Word word, bool wrote) const {
  if (time_of(word) < since_) return {};
  const Trace t = unpack(word);
  if (t.who == Trace::kBlocks) {
    const Group& group = groups_[uint32_t(word >> kThreadAt) % (1u << (kThreadBits + kBlockBits))];
    if (group.all_atomic && touch.how == Trace::kDeviceAtomic) return {};
    for (const auto& [block, of_block] : group.of_block) {
      const Conflict found = find_conflict(c, touch, of_block, wrote);
      if (found.finding != Finding::kNone) return found;
    }
    return {};
  }
  const bool stale_cache = wrote ? touch.how == Trace::kNonCoherent : t.how == Trace::kNonCoherent;
  if (stale_cache) return {Finding::kNonCoherent, t, wrote};
  const bool same_block = t.block == c.actor.block % kBlocks;
  const auto atomic = [&](Trace::How how) {
    return how == Trace::kDeviceAtomic || (how == Trace::kBlockAtomic && same_block);
  };
  if (atomic(t.how) && atomic(touch.how)) return {};
  if (!c.rules.races || is_ordered(c, t)) return {};
  return {Finding::kRace, t, wrote};
}

// A later trace in place of one that it follows, or one that stands for both.
Shadow::Word Shadow::merge(const Context& c, Trace::How how, Word word) const {
  Trace mine = {c.actor.now, c.actor.block, c.actor.thread, c.who, how};
  if (time_of(word) < since_) return pack(mine);
  const Trace t = unpack(word);
  if (t.how == Trace::kNonCoherent) mine.how = t.how;
  if (is_ordered(c, t)) return pack(mine);
  mine.how = strictest(mine.how, t.how);
  const bool same_warp = t.warp() == c.actor.warp() && t.who != Trace::kBlock;
  mine.who = same_warp ? Trace::kWarp : Trace::kBlock;
  return pack(mine);
}

void Shadow::remember_among_blocks(const Context& c, Trace::How how, Word& word) {
  Trace t = unpack(word);
  if (t.who != Trace::kBlocks) {
    groups_.push_back({true, {{t.block, word}}});
    groups_.back().all_atomic = t.how == Trace::kDeviceAtomic;
    const uint32_t index = uint32_t(groups_.size() - 1);
    word = Word(c.actor.now) << 32 | Word(index) << kThreadAt | Trace::kBlocks << kHowBits;
  }
  Group& group = groups_[uint32_t(word >> kThreadAt) % (1u << (kThreadBits + kBlockBits))];
  group.all_atomic &= how == Trace::kDeviceAtomic;
  Word& mine = group.of_block[c.actor.block % kBlocks];
  mine = merge(c, how, mine);
}

void Shadow::remember(const Context& c, Trace::How how, Word& word) {
  const bool past = time_of(word) < since_;
  const Trace t = unpack(word);
  const bool by_several = !past && t.who == Trace::kBlocks;
  const bool by_another = !past && t.block != c.actor.block % kBlocks && !is_ordered(c, t);
  if (by_several || by_another) {
    remember_among_blocks(c, how, word);
  } else {
    word = merge(c, how, word);
  }
}

Conflict Shadow::touch_cell(const Context& c, const Touch& touch, Cell& cell) {
  if (touch.reads && c.rules.uninitialized && time_of(cell.wrote) < since_) {
    return {Finding::kUninitialized, {}, true};
  }
  Conflict found = find_conflict(c, touch, cell.wrote, true);
  if (found.finding == Finding::kNone && touch.writes) {
    found = find_conflict(c, touch, cell.read, false);
  }
  if (found.finding != Finding::kNone) return found;
  // A plain write without a conflict comes after all others: it alone is left to be seen.
  if (touch.writes && touch.how == Trace::kPlain) {
    cell.wrote = c.trace(touch.how);
  } else {
    remember(c, touch.how, touch.writes ? cell.wrote : cell.read);
  }
  return {};
}

Conflict Shadow::touch(const Touch& touch, const Actor& actor, const BlockOrder* order,
                       const ShadowRules& rules, int* lane) {
  if (1u << shift_ > touch.element_bytes) refine(touch.element_bytes);
  Context c{actor,
            Trace::kThread,
            order,
            rules,
            Word(actor.block % kBlocks) << kBlockAt,
            Word(actor.block_synced) << 32};
  const bool contiguous = !touch.each && touch.stride == touch.bytes && touch.lanes == ~0u;
  if (contiguous && touch_quietly(c, touch)) return {};
  // What all lanes read is read once, by the warp.
  uint32_t lanes = touch.lanes;
  if (!touch.each && touch.stride == 0 && !touch.writes && (lanes & (lanes - 1))) {
    lanes &= 0u - lanes;
    c.who = Trace::kWarp;
  }
  const size_t count = touch.bytes >> shift_;
  for (; lanes; lanes &= lanes - 1) {
    *lane = __builtin_ctz(lanes);
    c.actor.thread = actor.thread + uint32_t(*lane);
    Cell* cells = &cells_[(touch.address_of(*lane) - base_) >> shift_];
    for (size_t i = 0; i < count; ++i) {
      if (is_quiet(c, touch, cells[i])) {
        (touch.writes ? cells[i].wrote : cells[i].read) = c.trace(touch.how);
        continue;
      }
      const Conflict found = touch_cell(c, touch, cells[i]);
      if (found.finding != Finding::kNone) return found;
    }
  }
  return {};
}

}  // namespace emulator
