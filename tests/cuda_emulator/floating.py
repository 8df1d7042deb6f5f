# SPDX-License-Identifier: Apache-2.0
"""Floating-point arithmetic and conversions of one lane.

Results are IEEE's, rounded to nearest; a NaN result is NVIDIA's one NaN. Other rounding modes of
arithmetic, and arithmetic in 16 bits, are refused. Of the approximate functions, whose last bits
only the hardware knows, the host's own are taken.
"""

from lanewise import INTEGER_RULES, rule
from operands import CPP_TYPES
from ptx import Unsupported

DIRECTED = ("rz", "rm", "rp")
INTEGRAL = {"rni": "kNearest", "rzi": "kZero", "rmi": "kDown", "rpi": "kUp"}
NARROW = {"f16": ("to_float", "to_half"), "bf16": ("from_bfloat", "to_bfloat")}
FUNCTIONS = {
    "ex2": "std::exp2({})",
    "lg2": "std::log2({})",
    "sin": "std::sin({})",
    "cos": "std::cos({})",
    "tanh": "std::tanh({})",
    "sqrt": "std::sqrt({})",
    "rcp": "1 / {}",
    "rsqrt": "1 / std::sqrt({})",
}


def finish(i, result):
    """What follows the operation itself."""
    if "sat" in i.parts:
        result = f"saturate({result})"
    return f"flush({result})" if "ftz" in i.parts else result


def inputs(i, count):
    values = [i[n] for n in range(1, count + 1)]
    return [f"flush({value})" for value in values] if "ftz" in i.parts else values


def is_float(i):
    if i.type in ("f16", "bf16", "f16x2", "bf16x2"):
        raise Unsupported(i.text)
    return i.type in ("f32", "f64")


@rule("add", "sub", "mul", "div")
def arithmetic(i):
    if not is_float(i):
        return INTEGER_RULES[i.name](i)
    i.refuse(*DIRECTED)
    a, b = inputs(i, 2)
    sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[i.name]
    i.write(finish(i, f"canonical({a} {sign} {b})"))


@rule("fma", "mad")
def multiply_add(i):
    if not is_float(i):
        return INTEGER_RULES[i.name](i)
    i.refuse(*DIRECTED, "relu")
    function = "__builtin_fmaf" if i.type == "f32" else "__builtin_fma"
    i.write(finish(i, f"canonical({function}({', '.join(inputs(i, 3))}))"))


@rule("min", "max")
def extreme(i):
    if not is_float(i):
        return INTEGER_RULES[i.name](i)
    if "xorsign" in i.parts or len(i.instruction.operands) > 3:
        raise Unsupported(i.text)
    name = {"min": "minimum", "max": "maximum"}[i.name]
    name += "_or_nan" if "NaN" in i.parts else ""
    i.write(finish(i, f"{name}({', '.join(inputs(i, 2))})"))


@rule("abs", "neg")
def sign(i):
    if not is_float(i):
        return INTEGER_RULES[i.name](i)
    (x,) = inputs(i, 1)
    i.write(f"std::fabs({x})" if i.name == "abs" else f"-{x}")


@rule("copysign")
def copysign(i):
    i.write(f"std::copysign({i[2]}, {i[1]})")


@rule(*FUNCTIONS)
def function(i):
    if not is_float(i):
        raise Unsupported(i.text)
    i.refuse(*DIRECTED)
    i.write(finish(i, f"canonical({FUNCTIONS[i.name].format(inputs(i, 1)[0])})"))


def convert_float(i, to, source, value):
    rounding = i.instruction.find(*INTEGRAL)
    if to[0] != "f":
        mode = INTEGRAL[rounding or "rzi"]
        return f"to_integer<{CPP_TYPES[to]}, Rounding::{mode}>({value})"
    if rounding:
        return finish(i, f"to_integral<Rounding::{INTEGRAL[rounding]}>({value})")
    if to == source:
        return finish(i, value)
    return finish(i, f"canonical({CPP_TYPES[to]}({value}))")


@rule("cvt")
def convert(i):
    i.refuse(*DIRECTED, "satfinite", "relu")
    to, source = i.types[:2]
    if to in ("f16x2", "bf16x2"):
        pack = NARROW[to[:-2]][1]
        high, low = (f"uint32_t({pack}({i.value(n, 'f32')}))" for n in (1, 2))
        return i.write(f"{high} << 16 | {low}", "u32")
    value = i.value(1, source)
    if source in NARROW:
        if source == to or to not in ("f32", "f64", *NARROW):
            raise Unsupported(i.text)
        value, source = f"{NARROW[source][0]}({value})", "f32"
    if to in NARROW:
        if source != "f32":
            raise Unsupported(i.text)
        return i.write(f"{NARROW[to][1]}({value})", "u16")
    if source[0] == "f":
        if "ftz" in i.parts and source == "f32":
            value = f"flush({value})"
        return i.write(convert_float(i, to, source, value), to)
    if "sat" in i.parts:
        raise Unsupported(i.text)
    i.write(f"{CPP_TYPES[to]}({value})", to)
