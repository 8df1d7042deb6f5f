# SPDX-License-Identifier: Apache-2.0
"""Shuffles, votes, matches and reductions of a warp, barriers, and where control goes next.

Each operation of the warp stands at the beginning of its block: who takes part is settled first.
"""

from control_flow import is_collective
from lanewise import Lane
from operands import CPP_TYPES, unsigned
from ptx import Unsupported

SHUFFLES = {"up": "kUp", "down": "kDown", "bfly": "kButterfly", "idx": "kIndex"}
REDUCTIONS = {"add": "a + x", "and": "a & x", "or": "a | x", "xor": "a ^ x"}
REDUCTIONS.update({"min": "std::min(a, x)", "max": "std::max(a, x)"})


def each_lane(code, cpp, stem, value):
    """A variable with a value for each lane."""
    name = code.name(stem)
    code.declare(f"{cpp} {name}[kLanes];")
    code.lane(f"{name}[l] = {value};")
    return name


def quoted(instruction):
    return '"' + instruction.text + '"'


def collective(code, operands, i, place):
    if not is_collective(i) or (i.name != "elect" and "sync" not in i.parts and i.name != "bar"):
        raise Unsupported(i.text)
    members = each_lane(code, "uint32_t", "members", operands.value(i.operands[-1], "u32"))
    rule = {"shfl": shuffle, "vote": vote, "match": match, "redux": reduce, "elect": elect}
    inputs = each_input(code, operands, i)
    code.warp(f"GATHER({members}, {place}, {quoted(i)});")
    if i.name == "bar":
        code.warp("sync_warp(b, w);")
    else:
        rule[i.name](code, operands, i, inputs)


def each_input(code, operands, i):
    """What the lanes bring, before it is known who takes part."""
    if i.name == "shfl":
        stems = ("value", "lane", "clamp")
        values = [operands.value(operand, "u32") for operand in i.operands[1:4]]
        return [each_lane(code, "uint32_t", stem, value) for stem, value in zip(stems, values)]
    if i.name == "vote":
        lanes = code.name("votes")
        code.declare(f"uint32_t {lanes} = 0;")
        code.lane(f"{lanes} |= uint32_t({operands.value(i.operands[1], 'pred')}) << l;")
        return [lanes]
    if i.name in ("match", "redux"):
        kind = i.type if i.name == "redux" else unsigned(i.type)
        if kind not in CPP_TYPES or kind[0] in "fp":
            raise Unsupported(i.text)
        return [each_lane(code, CPP_TYPES[kind], "value", operands.value(i.operands[1], kind))]
    return []


def results(i):
    """The registers a|b of the first operand; the second may be missing."""
    return (i.operands[0].split("|") + ["_"])[:2]


def shuffle(code, operands, i, inputs):
    result, in_range = code.name("result"), code.name("in_range")
    code.warp(f"uint32_t {result}[kLanes], {in_range}[kLanes];")
    code.warp(
        f"shuffle(b, w, Shuffle::{SHUFFLES[i.find(*SHUFFLES)]}, group, {', '.join(inputs)}, "
        f"{result}, {in_range}, {quoted(i)});"
    )
    lane, (value, predicate) = Lane(operands, code, i), results(i)
    lane.write(f"{result}[l]", "u32", value)
    lane.write(f"{in_range}[l] != 0", "pred", predicate)


def vote(code, operands, i, inputs):
    (votes,) = inputs
    kind = i.find("ballot", "any", "all", "uni")
    yes = f"({votes} & group)"
    lane = Lane(operands, code, i)
    if kind == "ballot":
        return lane.write(yes, "u32")
    results = {"any": f"{yes} != 0", "all": f"{yes} == group"}
    results["uni"] = f"{yes} == 0 || {yes} == group"
    lane.write(results[kind], "pred")


def match(code, operands, i, inputs):
    (value,) = inputs
    same = code.name("same")
    code.warp(f"uint32_t {same}[kLanes];")
    code.warp(f"match_lanes(group, {value}, {same});")
    lane, (mask, predicate) = Lane(operands, code, i), results(i)
    if "all" in i.parts:
        lane.write(f"{same}[l] == group ? group : 0u", "u32", mask)
        lane.write(f"{same}[l] == group", "pred", predicate)
    else:
        lane.write(f"{same}[l]", "u32", mask)


def reduce(code, operands, i, inputs):
    (value,) = inputs
    cpp, total = CPP_TYPES[i.type], code.name("total")
    combine = f"[]({cpp} a, {cpp} x) -> {cpp} {{ return {REDUCTIONS[i.find(*REDUCTIONS)]}; }}"
    code.warp(f"const {cpp} {total} = reduce_lanes(group, {value}, {combine});")
    Lane(operands, code, i).write(total, i.type)


def elect(code, operands, i, inputs):
    lane, (leader, predicate) = Lane(operands, code, i), results(i)
    lane.write("uint32_t(__builtin_ctz(group))", "u32", leader)
    lane.write("l == __builtin_ctz(group)", "pred", predicate)


def active_mask(code, operands, i):
    Lane(operands, code, i).write("w.active", "u32")


def lanes_that(code, operands, i):
    """The active lanes for which an instruction's guard holds."""
    condition = operands.condition(i)
    if condition is None:
        return "w.active"
    lanes = code.name("lanes")
    code.declare(f"uint32_t {lanes} = 0;")
    code.lane(f"{lanes} |= uint32_t({condition}) << l;")
    return f"({lanes} & w.active)"


def check_barrier(i, threads_at):
    """Only the barrier of the whole block is known: number 0, without a count of threads."""
    if i.guard or i.operands[0] != "0" or len(i.operands) != threads_at:
        raise Unsupported(i.text)


def wait_at_barrier(code, place):
    code.warp(f"w.wait_at_barrier({place}, {place + 1});")
    code.warp("return kStop;")


def barrier(code, operands, i, place):
    kind = next((part for part in i.parts[1:] if part not in ("cta", "aligned")), "sync")
    if kind != "sync":
        raise Unsupported(i.text)
    check_barrier(i, 1)
    wait_at_barrier(code, place)


def cast_votes(code, operands, i, place):
    check_barrier(i, 2)
    votes = code.name("votes")
    code.declare(f"uint32_t {votes} = 0;")
    code.lane(f"{votes} |= uint32_t({operands.value(i.operands[1], 'pred')}) << l;")
    code.warp(f"b.vote({votes}, w.active);")
    wait_at_barrier(code, place)


def tally_votes(code, operands, i):
    """The result of the barrier that ended the block before."""
    kind = i.find("popc", "and", "or")
    result = {"popc": "b.count", "and": "b.all", "or": "b.any"}[kind]
    Lane(operands, code, i).write(result, "u32" if kind == "popc" else "pred")


def branch(code, operands, i, place, places):
    target = places.get(i.operands[0])
    if target is None:
        raise Unsupported(i.text)
    if i.guard:
        taken = lanes_that(code, operands, i)
        code.warp(f"if ({taken} == w.active) JUMP({target});")
        code.warp(f"if ({taken} == 0) JUMP({place + 1});")
        code.warp(f"w.resume({taken}, {target});")
        code.warp(f"w.resume(w.active & ~{taken}, {place + 1});")
        code.warp("return kStop;")
    else:
        code.warp(f"JUMP({target});")


def branch_by_table(code, operands, i, targets):
    if i.guard:
        raise Unsupported(i.text)
    index = each_lane(code, "uint32_t", "index", operands.value(i.operands[0], "u32"))
    table = ", ".join(map(str, targets))
    code.warp(f"static const int kTable[] = {{{table}}};")
    code.warp(f"LANES w.place[l] = HAS(w.active, l) ? kTable[{index}[l]] : w.place[l];")
    code.warp("return kStop;")


def leave(code, operands, i, place):
    leaving = lanes_that(code, operands, i)
    code.warp(f"if ({leaving} == 0) JUMP({place + 1});")
    code.warp(f"w.exit({leaving}, {place + 1});")
    code.warp("return kStop;")


def pause(code, place):
    """Other blocks may go on now."""
    code.warp(f"if (!b.interleaved) JUMP({place + 1});")
    code.warp(f"w.resume(w.active, {place + 1});")
    code.warp("return kStop;")


def trap(code, operands, i):
    code.warp(f'if ({lanes_that(code, operands, i)}) fail(b, w, {quoted(i)}, "trap");')
