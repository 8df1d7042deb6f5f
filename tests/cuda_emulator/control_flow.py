# SPDX-License-Identifier: Apache-2.0
"""A kernel's code cut into blocks: places where lanes can meet, or part.

A block begins where something jumps to, after whatever ends one, and at each operation of the warp,
where lanes may have to wait for each other. A barrier that votes becomes two instructions: one
casts the votes and waits, the other, in the next block, takes the result.
"""

from dataclasses import dataclass, field, replace

from ptx import Instruction

BRANCHES = {"bra", "brx", "ret", "exit"}
BARRIERS = {"bar", "barrier"}
STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel"}
WIDE_SCOPES = {"gl", "gpu", "sys", "cluster"}


@dataclass
class Block:
    instructions: list = field(default_factory=list)


@dataclass
class Flow:
    blocks: list
    places: dict  # of labels: the block's index
    communicates: bool
    orders: bool


def is_barrier(instruction):
    return instruction.name in BARRIERS and "warp" not in instruction.parts


def is_collective(instruction):
    if instruction.name == "bar":
        return "warp" in instruction.parts
    return instruction.name in {"shfl", "vote", "match", "redux", "elect"}


def is_wide_fence(instruction):
    return instruction.name in {"membar", "fence"} and bool(WIDE_SCOPES & set(instruction.parts))


def is_communication(instruction):
    """Can other blocks take part?"""
    if "shared" in instruction.parts or "local" in instruction.parts:
        return False
    if instruction.name in {"atom", "red"} or is_wide_fence(instruction):
        return True
    return instruction.name in {"ld", "st"} and bool(STRONG & set(instruction.parts))


def is_ordering(instruction):
    if is_wide_fence(instruction):
        return True
    ordered = {"acquire", "release", "acq_rel"} & set(instruction.parts)
    return is_communication(instruction) and bool(ordered)


def flow_of(kernel):
    instructions = [item for item in kernel.code if isinstance(item, Instruction)]
    communicates = any(map(is_communication, instructions))
    flow = Flow([Block()], {}, communicates, any(map(is_ordering, instructions)))

    def begin_block():
        if flow.blocks[-1].instructions:
            flow.blocks.append(Block())

    for item in kernel.code:
        if isinstance(item, str):
            begin_block()
            flow.places[item] = len(flow.blocks) - 1
            continue
        if is_collective(item):
            begin_block()
        if is_barrier(item) and "red" in item.parts:
            result, *rest = item.operands
            kind = item.parts[item.parts.index("red") + 1 :]
            cast = replace(item, parts=["cast", *kind], operands=rest)
            flow.blocks[-1].instructions.append(cast)
            flow.blocks.append(Block([replace(item, parts=["tally", *kind], operands=[result])]))
            continue
        flow.blocks[-1].instructions.append(item)
        if is_communication(item):
            pause = Instruction(item.text, ["pause"], [])
            flow.blocks[-1].instructions.append(pause)
        if item.name in BRANCHES or is_barrier(item) or is_communication(item):
            flow.blocks.append(Block())
    return flow
