# SPDX-License-Identifier: Apache-2.0
"""Loads, stores, atomics, fences, and addresses as such.

The lanes' addresses are gathered, checked by `access`, which makes them the host's, and then used.
"""

from dataclasses import dataclass

from control_flow import STRONG, is_wide_fence
from lanewise import Lane
from operands import CPP_TYPES, unsigned
from ptx import BITS, Unsupported, split

SPACES = {"global", "shared", "local", "param", "const"}
ORDERS = {
    "relaxed": "kRelaxed",
    "volatile": "kRelaxed",
    "acquire": "kAcquire",
    "release": "kRelease",
    "acq_rel": "kAcquireRelease",
}
UPDATES = {
    "add": "old + x",
    "min": "std::min(old, x)",
    "max": "std::max(old, x)",
    "and": "old & x",
    "or": "old | x",
    "xor": "old ^ x",
    "exch": "x",
    "cas": "old == x ? y : old",
    "inc": "old >= x ? 0 : old + 1",
    "dec": "old == 0 || old > x ? x : old - 1",
}


@dataclass
class Accesses:
    """A kernel's table of accesses."""

    rows: list

    def add(self, instruction, kind, element_bytes, vector=1):
        row = [
            '"' + instruction.text.replace("\\", "").replace('"', "'") + '"',
            f"Space::{space_of(instruction)}",
            f"Kind::{kind}",
            str(element_bytes * vector),
            str(element_bytes),
            f"Order::{order_of(instruction)}",
            "Scope::kBlock" if "cta" in instruction.parts else "Scope::kDevice",
            "true" if "nc" in instruction.parts else "false",
        ]
        self.rows.append("{" + ", ".join(row) + "},")
        return f"kAccesses[{len(self.rows) - 1}]"


def space_of(instruction):
    space = next((part for part in instruction.parts if part in SPACES), "generic")
    return "kGlobal" if space == "const" else f"k{space.title()}"


def order_of(instruction):
    order = next((part for part in instruction.parts if part in STRONG), None)
    if order == "volatile" and "shared" in instruction.parts:
        return "kWeak"  # it keeps the compiler from moving it, and orders nothing
    if order is None:
        return "kRelaxed" if instruction.name in ("atom", "red") else "kWeak"
    return ORDERS[order]


def elements(i):
    """Bits of an element, and how many there are."""
    vector = next((int(part[1:]) for part in i.parts if part in ("v2", "v4", "v8")), 1)
    return BITS[i.type], vector


def in_bounds(code, operands, i, address, access):
    """Gathers addresses and lanes and has them checked; gives the two variables."""
    addresses, lanes = code.name("address"), code.name("lanes")
    code.declare(f"uint64_t {addresses}[kLanes];")
    condition = operands.condition(i)
    code.declare(f"uint32_t {lanes} = {'0' if condition else 'kAllLanes'};")
    code.lane(f"{addresses}[l] = {address};")
    if condition:
        code.lane(f"{lanes} |= uint32_t({condition}) << l;")
    code.warp(f"{lanes} &= w.active;")
    code.warp(f"access(b, w, {addresses}, {lanes}, {access});")
    return addresses, lanes


def load(code, operands, i, accesses):
    if "param" in i.parts and "%" not in i.operands[1]:
        return load_parameter(code, operands, i)
    bits, vector = elements(i)
    access = accesses.add(i, "kRead", bits // 8, vector)
    addresses, lanes = in_bounds(code, operands, i, operands.address(i.operands[1]), access)
    same = unsigned(i.type) if i.type[0] != "s" else i.type
    cpp = CPP_TYPES[same]
    for number, target in enumerate(targets(i, 0)):
        value = f"load<{cpp}>({addresses}[l] + {number * bits // 8})"
        loaded = f"HAS({lanes}, l) ? {value} : {cpp}(0)"
        code.write(target, loaded, same, operands.condition(i))
    code.close()


def load_parameter(code, operands, i):
    bits, _ = elements(i)
    same = unsigned(i.type) if i.type[0] != "s" else i.type
    address = operands.address(i.operands[1])
    for number, target in enumerate(targets(i, 0)):
        value = f"load<{CPP_TYPES[same]}>({address} + {number * bits // 8})"
        code.write(target, value, same, operands.condition(i))


def targets(i, index):
    operand = i.operands[index]
    return split(operand[1:-1]) if operand.startswith("{") else [operand]


def store(code, operands, i, accesses):
    if "param" in i.parts:  # the argument of a call, which is refused where it stands
        return
    bits, vector = elements(i)
    access = accesses.add(i, "kWrite", bits // 8, vector)
    addresses, lanes = in_bounds(code, operands, i, operands.address(i.operands[0]), access)
    same = unsigned(i.type)
    for number, source in enumerate(targets(i, 1)):
        value = operands.value(source, same)
        code.lane(f"if (HAS({lanes}, l)) store({addresses}[l] + {number * bits // 8}, {value});")
    code.close()


def atomic(code, operands, i, accesses):
    """Lane after lane, from the lane on that the schedule says."""
    given = 1 if i.name == "atom" else 0
    update = i.find(*UPDATES)
    if update is None or "noftz" in i.parts or i.type not in CPP_TYPES or elements(i)[1] != 1:
        raise Unsupported(i.text)
    bits, cpp = BITS[i.type], CPP_TYPES[i.type]
    access = accesses.add(i, "kUpdate", bits // 8)
    old, x, y = (code.name(stem) for stem in ("old", "x", "y"))
    code.declare(f"{cpp} {old}[kLanes], {x}[kLanes], {y}[kLanes];")
    code.lane(f"{old}[l] = 0;")
    code.lane(f"{x}[l] = {operands.value(i.operands[given + 1], i.type)};")
    if update == "cas":
        code.lane(f"{y}[l] = {operands.value(i.operands[given + 2], i.type)};")
    addresses, lanes = in_bounds(code, operands, i, operands.address(i.operands[given]), access)
    code.warp(
        f"update_each({addresses}, {lanes}, b.first_lane, {old}, {x}, {y}, "
        f"[]({cpp} old, {cpp} x, {cpp} y) -> {cpp} {{ (void)y; return {UPDATES[update]}; }});"
    )
    if given:
        code.write(i.operands[0], f"{old}[l]", i.type, operands.condition(i))


def fence(code, operands, i):
    if "proxy" in i.parts or "sync_restrict" in " ".join(i.parts):
        raise Unsupported(i.text)
    if not is_wide_fence(i):
        return
    lanes = code.name("lanes")
    code.declare(f"uint32_t {lanes} = 0;")
    code.lane(f"{lanes} |= uint32_t({operands.condition(i) or 'true'}) << l;")
    code.warp(f"fence(b, w, {lanes} & w.active);")


def convert_address(code, operands, i):
    """Generic addresses are the host's; those of shared and local memory count from its start."""
    lane = Lane(operands, code, i)
    base = "0"
    if "shared" in i.parts:
        base = "uint64_t(b.shared)"
    elif "local" in i.parts:
        base = "uint64_t(b.local_of(w, l))"
    lane.write(f"{lane[1]} {'-' if 'to' in i.parts else '+'} {base}")
