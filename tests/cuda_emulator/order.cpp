// SPDX-License-Identifier: Apache-2.0
#include "order.h"

#include <algorithm>

namespace emulator {

bool Release::covers(const Trace& trace) const {
  if (trace.block != block) return false;
  if (trace.time < block_before) return true;
  if (trace.who == Trace::kBlock || trace.warp() != thread / 32) return false;
  if (trace.time < warp_before) return true;
  return trace.who == Trace::kThread && trace.thread == thread && trace.time < thread_before;
}

bool Release::covers(const Release& other) const {
  return block == other.block && thread == other.thread && block_before >= other.block_before &&
         warp_before >= other.warp_before && thread_before >= other.thread_before;
}

void Knowledge::add(const Release& release) {
  std::vector<Release>& releases = of_block_[release.block];
  for (const Release& known : releases) {
    if (known.covers(release)) return;
  }
  std::erase_if(releases, [&](const Release& known) { return release.covers(known); });
  releases.push_back(release);
}

void Knowledge::add(const Knowledge& other) {
  for (const auto& [block, releases] : other.of_block_) {
    for (const Release& release : releases) add(release);
  }
}

bool Knowledge::covers(const Trace& trace) const {
  const auto found = of_block_.find(trace.block);
  if (found == of_block_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const Release& release) { return release.covers(trace); });
}

bool BlockOrder::has_seen(const Actor& actor, const Trace& trace) const {
  if (known_.covers(trace)) return true;
  for (const Acquired& acquired : acquired_) {
    const bool by_its_warp =
        acquired.thread / 32 == actor.warp() && acquired.when < actor.warp_synced;
    if (acquired.thread != actor.thread && !by_its_warp) continue;
    if (acquired.knowledge.covers(trace)) return true;
  }
  return false;
}

Knowledge BlockOrder::all_that(const Actor& actor) const {
  Knowledge all = known_;
  for (const Acquired& acquired : acquired_) {
    const bool by_its_warp =
        acquired.thread / 32 == actor.warp() && acquired.when < actor.warp_synced;
    if (acquired.thread == actor.thread || by_its_warp) all.add(acquired.knowledge);
  }
  all.add({actor.block, actor.thread, actor.block_synced, actor.warp_synced, actor.now + 1});
  return all;
}

void BlockOrder::acquire(const Actor& actor, const Knowledge& knowledge) {
  if (!knowledge.empty()) acquired_.push_back({actor.thread, actor.now, knowledge});
}

void BlockOrder::fence(const Actor& actor) {
  const auto read = read_.find(actor.thread);
  if (read != read_.end()) {
    acquire(actor, read->second);
    read_.erase(read);
  }
  fenced_[actor.thread] = all_that(actor);
}

void BlockOrder::barrier() {
  for (const Acquired& acquired : acquired_) known_.add(acquired.knowledge);
  acquired_.clear();
}

void BlockOrder::read(const Actor& actor, const Knowledge& variable, bool acquires) {
  if (variable.empty()) return;
  if (acquires) {
    acquire(actor, variable);
  } else {
    read_[actor.thread].add(variable);
  }
}

void BlockOrder::write(const Actor& actor, Knowledge& variable, bool releases, bool updates) {
  if (!updates) variable.clear();
  if (releases) {
    variable.add(all_that(actor));
  } else if (const auto fenced = fenced_.find(actor.thread); fenced != fenced_.end()) {
    variable.add(fenced->second);
  }
}

}  // namespace emulator
