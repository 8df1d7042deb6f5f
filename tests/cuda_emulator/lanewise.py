# SPDX-License-Identifier: Apache-2.0
"""Instructions that a lane executes by itself: moves, comparisons, logic and integers.

A rule takes a `Lane` and says what is written to which register, as a C++ expression.
"""

from operands import CPP_TYPES, INTEGER, unsigned
from ptx import BITS, Unsupported, split

RULES = {}

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNSIGNED_COMPARISONS = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
# True as well if either is NaN: the opposite of these.
OPPOSITES = {"equ": None, "neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
LOGIC = {"and": "&", "or": "|", "xor": "^"}


def rule(*names):
    def register(function):
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


class Lane:
    """One instruction, its operands as values, and where its results go."""

    def __init__(self, operands, code, instruction):
        self.operands, self.code, self.instruction = operands, code, instruction
        self.type = instruction.type

    def __getattr__(self, name):
        return getattr(self.instruction, name)

    def __getitem__(self, index):
        """An operand as the instruction's own type."""
        return self.value(index, self.type)

    def value(self, index, ptx_type):
        operands = self.instruction.operands
        if index >= len(operands):
            raise Unsupported(self.instruction.text)
        return self.operands.value(operands[index], ptx_type)

    def write(self, expression, ptx_type=None, register=None):
        target = register or self.instruction.operands[0]
        condition = self.operands.condition(self.instruction)
        self.code.write(target, expression, ptx_type or self.type, condition)

    def refuse(self, *parts):
        if set(parts) & set(self.instruction.parts):
            raise Unsupported(self.instruction.text)


@rule("mov")
def mov(i):
    target, source = i.instruction.operands[:2]
    whole = unsigned(i.type) if i.type != "pred" else "pred"
    if target.startswith("{"):
        parts = split(target[1:-1])
        width = BITS[i.type] // len(parts)
        for number, part in enumerate(parts):
            i.write(f"{i.value(1, whole)} >> {number * width}", f"u{width}", part)
    elif source.startswith("{"):
        parts = split(source[1:-1])
        width = BITS[i.type] // len(parts)
        cpp = CPP_TYPES[whole]
        pieces = [
            f"({cpp}({i.operands.value(part, f'u{width}')}) << {number * width})"
            for number, part in enumerate(parts)
        ]
        i.write(" | ".join(pieces), whole)
    else:
        i.write(i.value(1, whole), whole)


def comparison(i, a, b):
    """What setp and set compare."""
    name = i.parts[1]
    if name in UNSIGNED_COMPARISONS:
        return f"({a} {UNSIGNED_COMPARISONS[name]} {b})"
    if i.type[0] != "f":
        return f"({a} {COMPARISONS[name]} {b})"
    ordered = f"({a} == {a} && {b} == {b})"
    if name == "num":
        return ordered
    if name == "nan":
        return f"!{ordered}"
    if name == "ne":
        return f"({a} < {b} || {a} > {b})"
    if name == "equ":
        return f"!({a} < {b} || {a} > {b})"
    if name in OPPOSITES:
        return f"!({a} {OPPOSITES[name]} {b})"
    return f"({a} {COMPARISONS[name]} {b})"


@rule("setp", "set")
def setp(i):
    i.refuse("f16", "bf16", "f16x2", "bf16x2")
    a, b = i[1], i[2]
    if "ftz" in i.parts:
        a, b = f"flush({a})", f"flush({b})"
    result = comparison(i, a, b)
    combine = i.instruction.find("and", "or", "xor")
    other = f" {LOGIC[combine]} {i.value(3, 'pred')}" if combine else ""
    if i.name == "set":
        target = i.types[0]
        true = "1.0f" if target == "f32" else "~0u"
        return i.write(f"({result}{other}) ? {true} : 0", "f32" if target == "f32" else "u32")
    targets = i.instruction.operands[0].split("|")
    # Both at once: an operand may be the register that is written first.
    if len(targets) == 2:
        both = [i.code.name("compared") for _ in targets]
        i.code.lane(f"const bool {both[0]} = {result}{other}, {both[1]} = !{result}{other};")
        for name, target in zip(both, targets):
            i.write(name, "pred", target)
    else:
        i.write(result + other, "pred", targets[0])


@rule("selp")
def selp(i):
    same = unsigned(i.type)
    i.write(f"{i.value(3, 'pred')} ? {i.value(1, same)} : {i.value(2, same)}", same)


@rule("and", "or", "xor")
def logic(i):
    same = "pred" if i.type == "pred" else unsigned(i.type)
    i.write(f"{i.value(1, same)} {LOGIC[i.name]} {i.value(2, same)}", same)


@rule("not")
def invert(i):
    same = "pred" if i.type == "pred" else unsigned(i.type)
    i.write(f"{'!' if same == 'pred' else '~'}{i.value(1, same)}", same)


@rule("cnot")
def logical_not(i):
    i.write(f"{i.value(1, unsigned(i.type))} == 0", unsigned(i.type))


@rule("lop3")
def lop3(i):
    if len(i.instruction.operands) != 5 or not INTEGER.match(i.instruction.operands[4]):
        raise Unsupported(i.text)
    table = int(i.instruction.operands[4], 0)
    operands = [i.value(n, "u32") for n in (1, 2, 3)]
    terms = []
    for row in range(8):
        if table >> row & 1:
            bits = (row >> 2 & 1, row >> 1 & 1, row & 1)
            factors = [value if bit else f"~{value}" for bit, value in zip(bits, operands)]
            terms.append(f"({' & '.join(factors)})")
    i.write(" | ".join(terms) or "0u", "u32")


@rule("shl")
def shift_left(i):
    same = unsigned(i.type)
    i.write(f"shift_left({i.value(1, same)}, {i.value(2, 'u32')})", same)


@rule("shr")
def shift_right(i):
    same = i.type if i.type[0] == "s" else unsigned(i.type)
    i.write(f"shift_right({i.value(1, same)}, {i.value(2, 'u32')})", same)


@rule("shf")
def funnel_shift(i):
    count = i.value(3, "u32")
    count = f"({count} & 31)" if "wrap" in i.parts else f"std::min(32u, {count})"
    side = "left" if "l" in i.parts else "right"
    i.write(f"funnel_{side}({i.value(1, 'u32')}, {i.value(2, 'u32')}, {count})", "u32")


@rule("bmsk")
def bit_mask(i):
    a, b = i.value(1, "u32"), i.value(2, "u32")
    if "wrap" in i.parts:
        a, b = f"({a} & 31)", f"({b} & 31)"
    i.write(f"bit_mask({a}, {b})", "u32")


@rule("bfe")
def extract(i):
    i.write(f"extract_bits({i[1]}, {i.value(2, 'u32')}, {i.value(3, 'u32')})")


@rule("bfi")
def insert(i):
    same = unsigned(i.type)
    a, b = i.value(1, same), i.value(2, same)
    i.write(f"insert_bits({a}, {b}, {i.value(3, 'u32')}, {i.value(4, 'u32')})", same)


@rule("prmt")
def permute(i):
    if len(i.parts) != 2:
        raise Unsupported(i.text)
    i.write(f"permute_bytes({i.value(1, 'u32')}, {i.value(2, 'u32')}, {i.value(3, 'u32')})", "u32")


@rule("popc", "clz")
def count_bits(i):
    function = {"popc": "std::popcount", "clz": "leading_zeros"}[i.name]
    i.write(f"{function}({i.value(1, unsigned(i.type))})", "u32")


@rule("brev")
def reverse(i):
    i.write(f"reverse_bits({i.value(1, unsigned(i.type))})", unsigned(i.type))


@rule("bfind")
def find_leading(i):
    i.write(f"find_leading({i[1]}, {'true' if 'shiftamt' in i.parts else 'false'})", "u32")


CARRY = "%carry"  # a register of ours for the condition code


@rule("addc", "subc")
def with_carry(i):
    same = unsigned(i.type)
    a, b = i.value(1, same), i.value(2, same)
    carry_in = i.operands.value(CARRY, "u32") if i.name in ("addc", "subc") else "0u"
    kind = "sum" if i.name.startswith("add") else "difference"
    carry = i.code.name("carry")
    if "cc" in i.parts:
        i.code.lane(f"const uint32_t {carry} = {kind}_carry({a}, {b}, {carry_in});")
    sign = "+" if kind == "sum" else "-"
    i.write(f"{a} {sign} {b} {sign} {carry_in}", same)
    if "cc" in i.parts:
        i.write(carry, "u32", CARRY)


def integer_sum(i):
    if "cc" in i.parts:
        return with_carry(i)
    i.refuse("sat")
    same = unsigned(i.type)
    i.write(f"{i.value(1, same)} {'+' if i.name == 'add' else '-'} {i.value(2, same)}", same)


def integer_product(i):
    """mul and mad: the low half, the high half, or both."""
    i.refuse("sat", "cc")
    bits, signed = BITS[i.type], i.type[0] == "s"
    if "wide" in i.parts:
        wide = f"{'s' if signed else 'u'}{2 * bits}"
        result = f"{CPP_TYPES[wide]}({i[1]}) * {CPP_TYPES[wide]}({i[2]})"
        addend = f"u{2 * bits}"
    else:
        wide = addend = unsigned(i.type)
        if "hi" in i.parts:
            result = f"{CPP_TYPES[wide]}(high_product({i[1]}, {i[2]}))"
        else:
            # 16 bits would be promoted to int, and overflow.
            promoted = "uint32_t" if bits == 16 else ""
            result = f"{promoted}({i.value(1, wide)}) * {i.value(2, wide)}"
    if i.name == "mad":
        result = f"{CPP_TYPES[addend]}({result}) + {i.value(3, addend)}"
    i.write(result, addend if "wide" in i.parts else wide)


@rule("mul24", "mad24")
def product_of_24_bits(i):
    i.refuse("hi", "sat")
    a, b = (f"uint32_t(extract_bits({i[n]}, 0, 24))" for n in (1, 2))
    i.write(f"{a} * {b}" + (f" + {i.value(3, 'u32')}" if i.name == "mad24" else ""), "u32")


def integer_extreme(i):
    if i.type not in ("s16", "u16", "s32", "u32", "s64", "u64") or "relu" in i.parts:
        raise Unsupported(i.text)
    i.write(f"std::{i.name}({i[1]}, {i[2]})")


def integer_quotient(i):
    function = "quotient" if i.name == "div" else "remainder_of"
    i.write(f"{function}({i[1]}, {i[2]})")


@rule("rem")
def remainder(i):
    integer_quotient(i)


def integer_sign(i):
    same = unsigned(i.type)
    negated = f"{CPP_TYPES[same]}(0) - {i.value(1, same)}"
    i.write(negated if i.name == "neg" else f"{i[1]} < 0 ? {negated} : {i.value(1, same)}", same)


@rule("sad")
def absolute_difference(i):
    same = unsigned(i.type)
    a, b = i.value(1, same), i.value(2, same)
    i.write(f"{i.value(3, same)} + ({i[1]} < {i[2]} ? {b} - {a} : {a} - {b})", same)


INTEGER_RULES = {
    "add": integer_sum,
    "sub": integer_sum,
    "mul": integer_product,
    "mad": integer_product,
    "min": integer_extreme,
    "max": integer_extreme,
    "div": integer_quotient,
    "abs": integer_sign,
    "neg": integer_sign,
}
