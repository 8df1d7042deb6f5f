# SPDX-License-Identifier: Apache-2.0
"""Translate a PTX file to the C++ of a module, on standard output.

python translate.py in.ptx > out.cpp
"""

import re
import sys

import floating  # noqa: F401  its rules join lanewise's
from accesses import Accesses, atomic, convert_address, fence, load, store
from control_flow import BARRIERS, flow_of, is_collective
from emit import BlockCode, Storage, render_block
from lanewise import CARRY, RULES, Lane
from operands import CPP_TYPES, Layout, Operands, identifier
from ptx import Unsupported, parse
from warp_operations import (
    active_mask,
    barrier,
    branch,
    branch_by_table,
    cast_votes,
    collective,
    leave,
    pause,
    tally_votes,
    trap,
)

WITHOUT_EFFECT = {"nanosleep", "prefetch", "prefetchu", "discard", "applypriority", "pmevent"}
PART = 150  # instructions: compilers take more than linear time for long functions
JUMP = re.compile(r"JUMP\((\d+)\)")
COUNTS_NOTHING = {"pause", "tally"}


class KernelTranslation:
    def __init__(self, kernel, module):
        self.kernel, self.module = kernel, module
        self.registers = {**kernel.registers, CARRY: 32}
        self.layout = Layout(kernel, module)
        self.operands = Operands(self.registers, self.layout)
        self.flow = flow_of(kernel)
        self.accesses = Accesses([])
        self.name = identifier(kernel.name)

    def lower_block(self, place):
        code = BlockCode(self.registers)
        block = self.flow.blocks[place]
        for instruction in block.instructions:
            try:
                self.lower(code, instruction, place)
            except Unsupported as unsupported:
                reason = f"`{instruction.text}` is not supported ({unsupported})"
                raise Unsupported(f"kernel {self.kernel.name}: {reason}") from None
        if not code.loops[-1].after or code.loops[-1].after[-1] != "return kStop;":
            code.warp(f"JUMP({place + 1});")
        return code

    def lower(self, code, i, place):
        if i.name in ("ld", "ldu"):
            load(code, self.operands, i, self.accesses)
        elif i.name == "st":
            store(code, self.operands, i, self.accesses)
        elif i.name in ("atom", "red"):
            atomic(code, self.operands, i, self.accesses)
        elif i.name in ("membar", "fence"):
            fence(code, self.operands, i)
        elif i.name == "cvta":
            convert_address(code, self.operands, i)
        elif is_collective(i):
            collective(code, self.operands, i, place)
        elif i.name in RULES:
            RULES[i.name](Lane(self.operands, code, i))
        elif i.name not in WITHOUT_EFFECT:
            self.lower_control(code, i, place)

    def lower_control(self, code, i, place):
        if i.name == "bra":
            branch(code, self.operands, i, place, self.flow.places)
        elif i.name == "brx":
            targets = [self.flow.places[label] for label in self.kernel.tables[i.operands[1]]]
            branch_by_table(code, self.operands, i, targets)
        elif i.name in ("ret", "exit"):
            leave(code, self.operands, i, place)
        elif i.name in BARRIERS:
            barrier(code, self.operands, i, place)
        elif i.name == "cast":
            cast_votes(code, self.operands, i, place)
        elif i.name == "tally":
            tally_votes(code, self.operands, i)
        elif i.name == "pause":
            pause(code, place)
        elif i.name == "trap" or (i.name == "call" and "__assertfail" in i.operands):
            trap(code, self.operands, i)
        elif i.name == "activemask":
            active_mask(code, self.operands, i)
        else:
            raise Unsupported("no such rule")

    def translate(self):
        codes = [self.lower_block(place) for place in range(len(self.flow.blocks))]
        storage = Storage(self.registers, codes)
        registers = " ".join(storage.declare(register) for register in storage.of_warp)
        lines = [f"namespace {{ namespace kernel_{self.name} {{"]
        lines += ["const Access kAccesses[] = {", *self.accesses.rows, "{}};"]
        lines.append(f"struct alignas(64) Registers {{ {registers} }};")
        rendered = [render_block(code, place, storage) for place, code in enumerate(codes)]
        parts = self.parts()
        for number, places in enumerate(parts):
            lines += self.part(number, places, rendered)
        return [*lines, *self.run(parts), *self.describe(), "}}", *self.entry()]

    def parts(self):
        """Ranges of places, each with not too many instructions."""
        parts, size = [[]], 0
        for place, block in enumerate(self.flow.blocks):
            if parts[-1] and size + len(block.instructions) > PART:
                parts.append([])
                size = 0
            parts[-1].append(place)
            size += len(block.instructions)
        return parts

    def part(self, number, places, rendered):
        """The function that executes these places; behind the last of all, lanes are at the end."""
        lines = [f"int part{number}(Block& b, Warp& w, Registers& __restrict R, int place) {{"]
        lines.append("switch (place) {")
        inside = {str(place) for place in places}
        end = len(rendered)
        if places[-1] == end - 1:
            inside.add(str(end))

        def go(match):
            return match[0] if match[1] in inside else f"LEAP({match[1]})"

        for place in places:
            lines += [f"case {place}: L{place}: {{", f"SPEND({self.executed(place)});"]
            lines += [JUMP.sub(go, line) for line in rendered[place]]
            lines.append("}")
        return [*lines, f"default: L{end}: w.exit(w.active, {end}); return kStop;", "}", "}"]

    def run(self, parts):
        of_place = [str(number) for number, places in enumerate(parts) for _ in places]
        last = str(len(parts) - 1)
        names = ", ".join(f"part{number}" for number in range(len(parts)))
        return [
            f"const short kPartOfPlace[] = {{{', '.join([*of_place, last])}}};",
            "void run(Block& b, Warp& w, int place) {",
            f"constexpr int (*kParts[])(Block&, Warp&, Registers&, int) = {{{names}}};",
            "Registers& R = *static_cast<Registers*>(w.registers);",
            "while (place != kStop) place = kParts[kPartOfPlace[place]](b, w, R, place);",
            "}",
        ]

    def executed(self, place):
        instructions = self.flow.blocks[place].instructions
        return sum(instruction.name not in COUNTS_NOTHING for instruction in instructions)

    def describe(self):
        """The tables of the kernel's variables, and itself."""
        lines = []
        tables = {"kParams": self.layout.params, "kShared": self.layout.shared}
        tables["kLocal"] = self.layout.local
        for table, places in tables.items():
            rows = "".join(f'{{"{name}", {at}, {size}}}, ' for name, (at, size) in places.items())
            lines.append(f"const Variable {table}[] = {{{rows}{{}}}};")
        counts = ", ".join(f"{{{table}, {len(places)}}}" for table, places in tables.items())
        sizes = [self.layout.param_bytes, self.layout.static_shared_bytes, self.layout.local_bytes]
        flags = ["true" if flag else "false" for flag in (self.flow.communicates, self.flow.orders)]
        lines.append(
            f'const Kernel kKernel = {{"{self.kernel.name}", run, {counts}, '
            f"{', '.join(map(str, sizes))}, sizeof(Registers), {', '.join(flags)}}};"
        )
        return lines

    def entry(self):
        return [
            f'extern "C" void launch_{self.name}(const unsigned* grid, const unsigned* block,',
            "    size_t dynamic_shared_bytes, void** args) {",
            f"  launch(kernel_{self.name}::kKernel, grid, block, dynamic_shared_bytes, args);",
            "}",
        ]


def define(variable):
    """A variable of the module, with the values it begins with."""
    cpp = CPP_TYPES[f"u{8 * variable.element_bytes}"]
    name = f"global_{identifier(variable.name)}"
    values = variable.value.strip("{} ")
    count = max(variable.bytes // variable.element_bytes, 1)
    return [
        f"alignas({max(variable.align, 16)}) {cpp} {name}[{count}] = {{{values}}};",
        f'const ModuleVariable registered_{name}({name}, {variable.bytes}, "{variable.name}");',
    ]


def translate(text):
    module = parse(text)
    kernels = [KernelTranslation(kernel, module) for kernel in module.kernels]
    used = {v.name: v for kernel in kernels for v in kernel.layout.globals}
    lines = ['#include "lanes.h"', "using namespace emulator;", "namespace {"]
    for variable in used.values():
        lines += define(variable)
    lines.append("}")
    for kernel in kernels:
        lines += kernel.translate()
    return "\n".join(lines) + "\n"


def main(path):
    with open(path) as file:
        text = file.read()
    try:
        sys.stdout.write(translate(text))
    except Unsupported as unsupported:
        sys.exit(f"{path}: {unsupported}")


if __name__ == "__main__":
    main(*sys.argv[1:])
