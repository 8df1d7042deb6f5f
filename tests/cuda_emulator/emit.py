# SPDX-License-Identifier: Apache-2.0
"""The C++ of a block: loops over the lanes, and between them what the warp does as one.

Neighbouring instructions share one loop, in which a register that lives nowhere else is a scalar.
One that lives in a single block is an array of that block; all others belong to the warp.
"""

import re
from dataclasses import dataclass, field

from operands import CPP_TYPES, REGISTER_TYPES, identifier

REGISTER = re.compile("«([^»]+)»")


@dataclass
class Write:
    register: str
    value: str  # of the register's own type
    condition: str = ""

    def reads(self):
        return REGISTER.findall(self.value + self.condition)


@dataclass
class Loop:
    """Statements that all lanes execute, with what has to stand before and after."""

    before: list = field(default_factory=list)
    statements: list = field(default_factory=list)  # Write, or text
    after: list = field(default_factory=list)


class BlockCode:
    """Collects a block's code."""

    def __init__(self, registers):
        self.registers = registers
        self.loops = [Loop()]
        self.names = 0

    def name(self, stem):
        """A name for a variable of the block."""
        self.names += 1
        return f"{stem}{self.names}"

    def declare(self, text):
        self.loop().before.append(text)

    def lane(self, text):
        self.loop().statements.append(text)

    def write(self, register, expression, ptx_type, condition=None):
        if register == "_":
            return
        kept = REGISTER_TYPES[self.registers[register]]
        value = f"bits<{kept}>({CPP_TYPES[ptx_type]}({expression}))"
        self.loop().statements.append(Write(register, value, condition or ""))

    def warp(self, text):
        """Something the warp does as one, after all lanes have done the above."""
        self.loops[-1].after.append(text)

    def close(self):
        """What follows gets a loop of its own: that of a load does not vectorise, others do."""
        self.loops.append(Loop())

    def loop(self):
        if self.loops[-1].after:
            self.loops.append(Loop())
        return self.loops[-1]

    def uses(self):
        """(loop, register, is it written, is its old value needed), in order."""
        for index, loop in enumerate(self.loops):
            for statement in loop.statements:
                if isinstance(statement, str):
                    for register in REGISTER.findall(statement):
                        yield index, register, False, True
                    continue
                for register in statement.reads():
                    yield index, register, False, True
                yield index, statement.register, True, bool(statement.condition)


class Storage:
    """Where each register of a kernel is kept."""

    def __init__(self, registers, blocks):
        self.registers = registers
        used, exposed = {}, set()
        for number, block in enumerate(blocks):
            written = set()
            for loop, register, writes, needs_old in block.uses():
                used.setdefault(register, set()).add((number, loop))
                if needs_old and register not in written:
                    exposed.add(register)
                if writes:
                    written.add(register)
        self.scalars, self.arrays, self.of_warp = set(), {}, []
        for register, places in used.items():
            if register in exposed or len({number for number, loop in places}) > 1:
                self.of_warp.append(register)
            elif len(places) == 1:
                self.scalars.add(register)
            else:
                self.arrays.setdefault(next(iter(places))[0], []).append(register)
        self.places = {register: identifier(register) for register in self.scalars}
        for arrays in self.arrays.values():
            self.places.update({register: f"{identifier(register)}[l]" for register in arrays})
        self.places.update({register: f"R.{identifier(register)}[l]" for register in self.of_warp})

    def declare(self, register):
        return f"{REGISTER_TYPES[self.registers[register]]} {identifier(register)}[kLanes];"

    def resolve(self, text):
        return REGISTER.sub(lambda match: self.places[match[1]], text)


def render_loop(loop, storage):
    lines = list(loop.before)
    if loop.statements:
        lines.append("LANES {")
        seen = set()
        for statement in loop.statements:
            if isinstance(statement, str):
                lines.append("  " + storage.resolve(statement))
            else:
                lines.append("  " + render_write(statement, storage, seen))
        lines.append("}")
    return lines + loop.after


def render_write(write, storage, seen):
    place, value = storage.places[write.register], storage.resolve(write.value)
    condition = storage.resolve(write.condition)
    if place.startswith("R."):
        chosen = f"(w.on[l] && {condition})" if condition else "w.on[l]"
        return f"{place} = {chosen} ? {value} : {place};"
    if condition:
        return f"{place} = {condition} ? {value} : {place};"
    if write.register in storage.scalars and write.register not in seen:
        seen.add(write.register)
        return f"{REGISTER_TYPES[storage.registers[write.register]]} {place} = {value};"
    return f"{place} = {value};"


def render_block(block, number, storage):
    lines = [storage.declare(register) for register in storage.arrays.get(number, [])]
    for loop in block.loops:
        lines += render_loop(loop, storage)
    return lines
