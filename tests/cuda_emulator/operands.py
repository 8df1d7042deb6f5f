# SPDX-License-Identifier: Apache-2.0
"""Operands as C++ expressions for one lane `l`.

A register is written «name» in these expressions: where it is kept is decided later.
"""

import re

from ptx import BITS, Unsupported

GAP = 64  # bytes between two arrays, so that to run over the end of one is found

CPP_TYPES = {
    "pred": "bool",
    "f32": "float",
    "f64": "double",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "f16x2": "uint32_t",
    "bf16x2": "uint32_t",
}
for _bits in (8, 16, 32, 64):
    CPP_TYPES[f"s{_bits}"] = f"int{_bits}_t"
    CPP_TYPES[f"u{_bits}"] = CPP_TYPES[f"b{_bits}"] = f"uint{_bits}_t"

REGISTER_TYPES = {1: "uint32_t", 8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}

SPECIAL = {
    "%laneid": "uint32_t(l)",
    "%warpid": "w.index",
    "%lanemask_eq": "(1u << l)",
    "%lanemask_lt": "((1u << l) - 1)",
    "%lanemask_le": "((2u << l) - 1)",
    "%lanemask_gt": "~((2u << l) - 1)",
    "%lanemask_ge": "~((1u << l) - 1)",
    "WARP_SZ": "32u",
    "%dynamic_smem_size": "b.dynamic_shared_bytes",
    "%total_smem_size": "b.shared_bytes",
}
for _axis, _name in enumerate("xyz"):
    SPECIAL[f"%tid.{_name}"] = f"w.thread[{_axis}][l]"
    SPECIAL[f"%ntid.{_name}"] = f"b.block_size[{_axis}]"
    SPECIAL[f"%ctaid.{_name}"] = f"b.index[{_axis}]"
    SPECIAL[f"%nctaid.{_name}"] = f"b.grid_size[{_axis}]"

INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)U?$")
SYMBOL = re.compile(r"([\w$]+)(?:\s*\+\s*(-?\d+))?$")
ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]$")


def identifier(name):
    return re.sub(r"\W", "_", name.lstrip("%"))


def unsigned(ptx_type):
    return f"u{BITS[ptx_type]}"


def rounded_up(offset, align):
    return (offset + align - 1) // align * align


class Layout:
    """Where a kernel's parameters and arrays lie."""

    def __init__(self, kernel, module):
        self.params, self.param_bytes = self.place(kernel.params, 0)
        words = {word for item in kernel.code for word in self.words(item)}
        outer = [v for v in module.variables if v.name in words]
        own = kernel.variables
        statics = [v for v in own + outer if v.space == "shared" and v.bytes]
        self.shared, end = self.place(statics, GAP)
        self.static_shared_bytes = rounded_up(end + GAP, 128) if statics else 0
        self.dynamic = [v.name for v in outer if v.space == "shared" and not v.bytes]
        self.local, end = self.place([v for v in own if v.space == "local"], GAP)
        self.local_bytes = rounded_up(end + GAP, 16) if self.local else 0
        self.globals = [v for v in outer if v.space in ("global", "const")]

    @staticmethod
    def words(item):
        return re.findall(r"[\w$]+", item if isinstance(item, str) else item.text)

    @staticmethod
    def place(variables, gap):
        """{name: (offset, bytes)}, and the end of the last one."""
        places, end = {}, 0
        for variable in variables:
            start = rounded_up(end + gap if places else 0, variable.align)
            places[variable.name] = (start, variable.bytes)
            end = start + variable.bytes
        return places, end

    def address(self, name):
        """As the instructions of the variable's own space take it; None if there is no such."""
        if name in self.params:
            return f"(uint64_t(b.params) + {self.params[name][0]})"
        for places in (self.shared, self.local):
            if name in places:
                return f"{places[name][0]}ull"
        if name in self.dynamic:
            return f"{self.static_shared_bytes}ull"
        if any(variable.name == name for variable in self.globals):
            return f"uint64_t(global_{identifier(name)})"
        return None


class Operands:
    def __init__(self, registers, layout):
        self.registers = registers
        self.layout = layout

    def value(self, operand, ptx_type):
        """The operand, read as a value of that type."""
        cpp = CPP_TYPES[ptx_type]
        if operand in self.registers:
            return f"as<{cpp}>(«{operand}»)"
        if operand.startswith("!"):
            return f"!{self.value(operand[1:], ptx_type)}"
        if operand in SPECIAL:
            return f"{cpp}({SPECIAL[operand]})"
        if re.match(r"0[fF][0-9a-fA-F]{8}$", operand):
            return f"as<{cpp}>(0x{operand[2:]}u)"
        if re.match(r"0[dD][0-9a-fA-F]{16}$", operand):
            return f"as<{cpp}>(0x{operand[2:]}ull)"
        if INTEGER.match(operand):
            number = int(operand.rstrip("U"), 0)
            if BITS[ptx_type] <= 32:
                return f"{cpp}({number & 0xFFFFFFFF:#x}u)"
            return f"{cpp}({number & 0xFFFFFFFFFFFFFFFF:#x}ull)"
        symbol = SYMBOL.match(operand)
        address = symbol and self.layout.address(symbol[1])
        if address:
            return f"{cpp}({address} + ({symbol[2] or 0}))"
        raise Unsupported(f"operand {operand!r}")

    def address(self, operand):
        """The 64-bit address that [operand] means."""
        match = ADDRESS.match(operand)
        if not match:
            raise Unsupported(f"address {operand!r}")
        base, offset = match[1], int(match[2] or "0", 0)
        if base in self.registers:
            return f"as<uint64_t>(«{base}») + int64_t({offset})"
        if base.isdigit():
            return f"{int(base) + offset}ull"
        address = self.layout.address(base)
        if address is None:
            raise Unsupported(f"address {operand!r}")
        return f"{address} + int64_t({offset})"

    def condition(self, instruction):
        """The guard's value; None if the instruction has none."""
        if not instruction.guard:
            return None
        sign = "==" if instruction.negated else "!="
        return f"(«{instruction.guard}» {sign} 0)"
