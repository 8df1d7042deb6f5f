// SPDX-License-Identifier: Apache-2.0
#include "ranges.h"

#include <algorithm>

namespace emulator {
namespace {

constexpr size_t kRecent = 4;
constexpr size_t kMostNotes = 1 << 20;

}  // namespace

Conflict Range::touch(const Touch& touch, const Actor& actor, const BlockOrder* order,
                      const ShadowRules& rules, Time since, int* lane) {
  if (noted_since_ != since) {
    noted_since_ = since;
    notes_.clear();
  }
  const bool shadowed = shadow_ && shadow_->since() == since;
  if (!shadowed && !touch.writes && notes_.size() < kMostNotes) {
    note(touch, actor);
    return {};
  }
  if (!shadowed) shadow_launch(since, rules);
  return shadow_->touch(touch, actor, order, rules, lane);
}

void Range::note(const Touch& touch, const Actor& actor) {
  if (!touch.each) return notes_.push_back({touch, actor});
  for (uint32_t rest = touch.lanes; rest; rest &= rest - 1) {
    Touch one = touch;
    one.address = touch.each[__builtin_ctz(rest)];
    one.stride = 0;
    one.each = nullptr;
    one.lanes = rest & (0u - rest);
    notes_.push_back({one, actor});
  }
}

void Range::shadow_launch(Time since, const ShadowRules& rules) {
  if (!shadow_) shadow_ = std::make_unique<Shadow>(begin & ~uintptr_t(15), end - begin);
  shadow_->begin(since);
  int lane;
  for (const Note& note : notes_) shadow_->touch(note.touch, note.actor, nullptr, rules, &lane);
  notes_.clear();
}

void Range::forget_launches() {
  shadow_.reset();
  noted_since_ = 0;
}

void Range::mark(uintptr_t first, size_t bytes, bool defined) {
  if (defined && undefined_.empty()) return;
  if (undefined_.empty()) undefined_.resize(end - begin);
  const auto from = undefined_.begin() + ptrdiff_t(first - begin);
  std::fill(from, from + ptrdiff_t(bytes), !defined);
}

bool Range::is_defined(uintptr_t first, size_t bytes) const {
  const auto from = undefined_.begin() + ptrdiff_t(first - begin);
  return std::find(from, from + ptrdiff_t(bytes), true) == from + ptrdiff_t(bytes);
}

void Ranges::add(uintptr_t begin, size_t bytes, const char* label) {
  remove(begin);
  ranges_.try_emplace(begin, begin, bytes, label ? label : "");
}

void Ranges::remove(uintptr_t begin) {
  recent_.clear();
  ranges_.erase(begin);
}

Range* Ranges::starting_at(uintptr_t begin) {
  const auto found = ranges_.find(begin);
  return found == ranges_.end() ? nullptr : &found->second;
}

Range* Ranges::around(uintptr_t address) {
  for (Range* range : recent_) {
    if (range->holds(address, address + 1)) return range;
  }
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  Range& range = std::prev(after)->second;
  if (!range.holds(address, address + 1)) return nullptr;
  if (recent_.size() == kRecent) recent_.pop_back();
  recent_.insert(recent_.begin(), &range);
  return &range;
}

std::string Ranges::describe(uintptr_t address) const {
  const auto after = ranges_.upper_bound(address);
  std::string where;
  if (after != ranges_.begin()) {
    const Range& before = std::prev(after)->second;
    where = std::to_string(address - before.end) + " bytes past the end of '" + before.label +
            "' (" + std::to_string(before.end - before.begin) + " bytes)";
  }
  if (after != ranges_.end()) {
    where += (where.empty() ? "" : ", ") + std::to_string(after->first - address) +
             " bytes before '" + after->second.label + "'";
  }
  return where.empty() ? "there is no range" : where;
}

}  // namespace emulator
