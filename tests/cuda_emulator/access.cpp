// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics: bounds and alignment first, then, by the shadows, what they race with.
#include <cstdio>

#include "state.h"

namespace emulator {
namespace {

// How the addresses of a warp lie.
struct Extent {
  uint64_t low = ~0ull, high = 0, all_bits = 0;
  bool contiguous = true, uniform = true;
};

Extent measure(const uint64_t* address, uint32_t lanes, uint32_t bytes) {
  Extent e;
  const int first = __builtin_ctz(lanes);
  const uint64_t start = address[first] - uint64_t(first) * bytes;
  for (int l = 0; l < kLanes; ++l) {
    const bool on = lanes >> l & 1;
    const uint64_t a = on ? address[l] : address[first];
    e.low = a < e.low ? a : e.low;
    e.high = a > e.high ? a : e.high;
    e.all_bits |= a;
    e.contiguous &= !on | (a == start + uint64_t(l) * bytes);
    e.uniform &= a == address[first];
  }
  return e;
}

std::string hex(uint64_t x) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(x));
  return text;
}

[[noreturn]] void fail_lane(const Block& b, const Warp& w, const Access& x, int lane,
                            const std::string& what) {
  fail(b, w, x.text,
       ("thread " + std::to_string(w.index * kLanes + uint32_t(lane)) + ", " + what).c_str());
}

Trace::How how_of(const Access& x) {
  if (x.non_coherent) return Trace::kNonCoherent;
  if (x.order == Order::kWeak) return Trace::kPlain;
  return x.scope == Scope::kBlock ? Trace::kBlockAtomic : Trace::kDeviceAtomic;
}

const char* kind_of(Finding finding, bool shared) {
  switch (finding) {
    case Finding::kRace:
      return shared ? "race in shared memory" : "race in global memory";
    case Finding::kNonCoherent:
      return "non-coherent load of memory written in the same launch";
    default:
      return "read of uninitialized shared memory";
  }
}

[[noreturn]] void report(const Resident& b, const Warp& w, const Access& x, int lane,
                         uint64_t address, const Conflict& found, const std::string& place,
                         bool shared) {
  std::string what =
      std::string(kind_of(found.finding, shared)) + " at " + hex(address) + " in " + place;
  if (found.finding != Finding::kUninitialized) {
    const Trace& t = found.other;
    static constexpr const char* kHow[] = {"plain ", "atomic ", "block-wide atomic ",
                                           "non-coherent "};
    what += std::string(": not ordered after the ") + kHow[t.how] +
            (found.other_wrote ? "write" : "read") + " by thread " + std::to_string(t.thread) +
            (t.who == Trace::kThread ? "" : " and others");
    if (!shared) what += " of block " + std::to_string(t.block);
  }
  fail_lane(b, w, x, lane, what);
}

Touch describe_touch(const Extent& e, const uint64_t* address, uint32_t lanes, const Access& x) {
  const size_t first = size_t(__builtin_ctz(lanes)), stride = e.uniform ? 0 : x.bytes;
  return {address[first] - first * stride,
          stride,
          e.contiguous || e.uniform ? nullptr : address,
          lanes,
          x.bytes,
          x.element_bytes,
          x.kind != Kind::kRead,
          x.kind != Kind::kWrite,
          how_of(x)};
}

int lane_where(const uint64_t* address, uint32_t lanes, auto wrong) {
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    if (wrong(address[__builtin_ctz(rest)])) return __builtin_ctz(rest);
  }
  return -1;
}

void check_alignment(const Block& b, const Warp& w, const uint64_t* address, uint32_t lanes,
                     const Extent& e, const Access& x) {
  if (!(e.all_bits & (x.bytes - 1u))) return;
  const int l = lane_where(address, lanes, [&](uint64_t a) { return (a & (x.bytes - 1u)) != 0; });
  fail_lane(b, w, x, l,
            "misaligned access of " + std::to_string(x.bytes) + " bytes at " + hex(address[l]));
}

const Variable* variable_around(const Variables& variables, uint64_t first, uint64_t last) {
  for (const Variable& v : variables) {
    if (v.offset <= first && last <= uint64_t(v.offset) + v.bytes) return &v;
  }
  return nullptr;
}

void synchronize(Resident& b, Warp& w, const uint64_t* address, uint32_t lanes, const Access& x) {
  const bool acquires = x.order == Order::kAcquire || x.order == Order::kAcquireRelease;
  const bool releases = x.order == Order::kRelease || x.order == Order::kAcquireRelease;
  const bool wide = x.scope == Scope::kDevice;
  Launch& launch = *state().launch;
  for (int i = 0; i < kLanes; ++i) {
    const int l = (i + int(b.first_lane)) % kLanes;
    if (!(lanes >> l & 1)) continue;
    Knowledge& variable = launch.released[address[l]];
    const Actor actor = b.actor(w, l);
    if (x.kind != Kind::kWrite) b.order.read(actor, variable, acquires && wide);
    if (x.kind != Kind::kRead) {
      b.order.write(actor, variable, releases && wide, x.kind == Kind::kUpdate);
    }
  }
  if (releases) ++state().now;
}

void count(Range& range, uint32_t lanes, const Access& x) {
  const uint64_t bytes = uint64_t(__builtin_popcount(lanes)) * x.bytes;
  EmulatorCounters& counters = state().launch->counters;
  if (x.kind != Kind::kWrite) range.bytes_read += bytes, counters.global_bytes_read += bytes;
  if (x.kind != Kind::kRead) range.bytes_written += bytes, counters.global_bytes_written += bytes;
}

void check_definedness(Resident& b, Warp& w, Range& range, const uint64_t* address, uint32_t lanes,
                       const Access& x) {
  const bool checked = state().settings.checks & kCheckUninitialized;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    if (x.kind != Kind::kWrite && checked && !range.is_defined(address[l], x.bytes)) {
      fail_lane(
          b, w, x, l,
          "read of undefined global memory at " + hex(address[l]) + " in '" + range.label + "'");
    }
    if (x.kind != Kind::kRead) range.mark(address[l], x.bytes, true);
  }
}

void touch_range(Resident& b, Warp& w, Range& range, const uint64_t* address, uint32_t lanes,
                 const Extent& e, const Access& x) {
  const unsigned checks = state().settings.checks;
  if (range.read_only && x.kind != Kind::kRead) {
    const int l = __builtin_ctz(lanes);
    fail_lane(b, w, x, l,
              "write to read-only memory at " + hex(address[l]) + " in '" + range.label + "'");
  }
  count(range, lanes, x);
  if (range.tracks_definedness()) check_definedness(b, w, range, address, lanes, x);
  const ShadowRules rules{(checks & kCheckGlobalRaces) != 0, false,
                          (checks & kCheckWarpRaces) != 0};
  if (rules.races) {
    int lane = 0;
    const Touch touch = describe_touch(e, address, lanes, x);
    const Conflict found =
        range.touch(touch, b.actor(w, 0), &b.order, rules, state().launch->since, &lane);
    if (found.finding != Finding::kNone) {
      report(b, w, x, lane, address[lane], found, "'" + range.label + "'", false);
    }
  }
  if (x.order != Order::kWeak && b.kernel->orders) synchronize(b, w, address, lanes, x);
}

void access_global(Resident& b, Warp& w, const uint64_t* address, uint32_t lanes, const Access& x) {
  const Extent e = measure(address, lanes, x.bytes);
  check_alignment(b, w, address, lanes, e, x);
  Range* range = state().ranges.around(e.low);
  if (range && range->holds(e.low, e.high + x.bytes)) {
    return touch_range(b, w, *range, address, lanes, e, x);
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    const uint64_t a = address[l];
    range = state().ranges.around(a);
    if (!range || !range->holds(a, a + x.bytes)) {
      const std::string where =
          range ? "it runs over the end of '" + range->label + "'" : state().ranges.describe(a);
      fail_lane(b, w, x, l,
                "global access of " + std::to_string(x.bytes) + " bytes out of bounds at " +
                    hex(a) + ": " + where);
    }
    touch_range(b, w, *range, address, 1u << l, Extent{}, x);
  }
}

void access_shared(Resident& b, Warp& w, uint64_t* address, uint32_t lanes, const Access& x) {
  const Extent e = measure(address, lanes, x.bytes);
  check_alignment(b, w, address, lanes, e, x);
  const Variable dynamic = {"dynamic shared memory", b.kernel->static_shared_bytes,
                            b.dynamic_shared_bytes};
  const auto find = [&](uint64_t first, uint64_t last) {
    const Variable* v = variable_around(b.kernel->shared, first, last);
    return v ? v : variable_around({&dynamic, 1}, first, last);
  };
  const Variable* array = find(e.low, e.high + x.bytes);
  if (!array) {
    const int l = lane_where(address, lanes, [&](uint64_t a) { return !find(a, a + x.bytes); });
    if (l >= 0) {
      fail_lane(b, w, x, l,
                "shared access of " + std::to_string(x.bytes) + " bytes out of bounds at " +
                    hex(address[l]) + ", between or behind the arrays");
    }
  }
  const unsigned checks = state().settings.checks;
  const ShadowRules rules{(checks & kCheckSharedRaces) != 0, (checks & kCheckUninitialized) != 0,
                          (checks & kCheckWarpRaces) != 0};
  if (rules.races || rules.uninitialized) {
    int lane = 0;
    const Touch touch = describe_touch(e, address, lanes, x);
    const Conflict found = b.shared_shadow.touch(touch, b.actor(w, 0), nullptr, rules, &lane);
    if (found.finding != Finding::kNone) {
      array = find(address[lane], address[lane] + x.bytes);
      report(b, w, x, lane, address[lane], found, array->name, true);
    }
  }
  for (int l = 0; l < kLanes; ++l) address[l] += reinterpret_cast<uint64_t>(b.shared);
}

void access_local(Resident& b, Warp& w, uint64_t* address, uint32_t lanes, const Access& x) {
  const int l = lane_where(address, lanes, [&](uint64_t a) {
    return (a & (x.bytes - 1u)) || !variable_around(b.kernel->local, a, a + x.bytes);
  });
  if (l >= 0)
    fail_lane(b, w, x, l, "local access out of bounds or misaligned at " + hex(address[l]));
  for (int i = 0; i < kLanes; ++i) {
    address[i] += reinterpret_cast<uint64_t>(b.local_of(w, i));
  }
}

bool lies_in(uint64_t address, const char* memory, size_t bytes) {
  return address - reinterpret_cast<uint64_t>(memory) < bytes;
}

void check_params(Resident& b, Warp& w, uint64_t* address, uint32_t lanes, const Access& x) {
  const int l = lane_where(address, lanes, [&](uint64_t a) {
    const uint64_t offset = a - reinterpret_cast<uint64_t>(b.params);
    return x.kind != Kind::kRead || !variable_around(b.kernel->params, offset, offset + x.bytes);
  });
  if (l >= 0) fail_lane(b, w, x, l, "parameter access out of bounds");
}

// A generic address is the host's: each lane's says what memory it means.
void access_generic(Resident& b, Warp& w, uint64_t* address, uint32_t lanes, const Access& x) {
  const size_t local_bytes = size_t(b.kernel->local_bytes) * b.warps.size() * kLanes;
  while (lanes) {
    const uint64_t a = address[__builtin_ctz(lanes)];
    const bool shared = lies_in(a, b.shared, b.shared_bytes);
    const bool local = lies_in(a, b.local, local_bytes);
    const bool param = lies_in(a, b.params, b.kernel->param_bytes);
    uint64_t moved[kLanes];
    uint32_t same = 0;
    for (int l = 0; l < kLanes; ++l) {
      const bool alike = lies_in(address[l], b.shared, b.shared_bytes) == shared &&
                         lies_in(address[l], b.local, local_bytes) == local &&
                         lies_in(address[l], b.params, b.kernel->param_bytes) == param;
      same |= uint32_t(alike && (lanes >> l & 1)) << l;
      const char* window = shared ? b.shared : local ? b.local_of(w, l) : nullptr;
      moved[l] = address[l] - reinterpret_cast<uint64_t>(window);
    }
    if (shared) {
      access_shared(b, w, moved, same, x);
    } else if (local) {
      access_local(b, w, moved, same, x);
    } else if (param) {
      check_params(b, w, moved, same, x);
    } else {
      access_global(b, w, moved, same, x);
    }
    lanes &= ~same;
  }
}

}  // namespace

void access(Block& block, Warp& w, uint64_t* address, uint32_t lanes, const Access& x) {
  if (!lanes) return;
  Resident& b = resident(block);
  switch (x.space) {
    case Space::kGlobal:
      return access_global(b, w, address, lanes, x);
    case Space::kShared:
      return access_shared(b, w, address, lanes, x);
    case Space::kLocal:
      return access_local(b, w, address, lanes, x);
    case Space::kParam:
      return check_params(b, w, address, lanes, x);
    case Space::kGeneric:
      return access_generic(b, w, address, lanes, x);
  }
}

void fence(Block& block, Warp& w, uint32_t lanes) {
  Resident& b = resident(block);
  for (int l = 0; l < kLanes; ++l) {
    if (lanes >> l & 1) b.order.fence(b.actor(w, l));
  }
  ++state().now;
}

}  // namespace emulator
