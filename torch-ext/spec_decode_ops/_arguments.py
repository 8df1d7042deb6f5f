# SPDX-License-Identifier: Apache-2.0
"""What a parameter may be: one Python number for all rows, or a tensor with one or one a row.

A number's value is checked here; tensors are checked by the ops themselves, and their values are
never looked at, so that nothing waits for the device.
"""

from typing import Literal, NamedTuple, Union

import torch
from torch.compiler import is_compiling

Real = Union[float, torch.Tensor]
Integer = Union[int, torch.Tensor]
Algorithm = Literal["auto", "sort", "select"]

_OFFSETS = 1 << 60
_MAX_FLOAT = torch.finfo(torch.float32).max
_ROUNDS_TO_ZERO = 2.0**-150  # the largest number that is 0 in float32

ALGORITHMS = ("auto", "sort", "select")

# torch.SymInt and torch.SymFloat stand for numbers while a graph is compiled.
_INTEGERS = (int, torch.SymInt)
_REALS = (float, int, torch.SymFloat, torch.SymInt)
_PLAIN = (float, int)  # what nearly every call has: asked first
_SEEDS = 1 << 63
OFF = (0, 1.0, 0.0, 1.0)  # top_k, top_p, min_p and the penalty
MAYBE_TENSOR = (type(None), torch.Tensor)


def real(op, name, value, default, *, positive=False, single=False):
    """`value` as (number, tensor or None), where a real number is asked for. The ops read it as
    float32 if `single`."""
    if type(value) not in _PLAIN:
        if isinstance(value, torch.Tensor):
            return default, value
        if isinstance(value, bool) or not isinstance(value, _REALS):
            wanted = "a real number or a tensor of one a row"
            raise TypeError(f"{op}: {name} is {value!r}, wanted {wanted}")
    if not -_MAX_FLOAT <= value <= _MAX_FLOAT or (positive and value <= 0):
        wanted = "a positive finite number" if positive else "a finite number"
        raise ValueError(f"{op}: {name} is {value}, wanted {wanted}")
    if single and 0 < value <= _ROUNDS_TO_ZERO:
        raise ValueError(f"{op}: {name} is {value}, which is 0 in float32, wanted 0 or 1e-45 up")
    return float(value), None


def integer(op, name, value, default=0):
    """`value` as (number, tensor or None), where an integer is asked for."""
    if type(value) is int:
        return value, None
    if isinstance(value, torch.Tensor):
        return default, value
    if isinstance(value, bool) or not isinstance(value, _INTEGERS):
        raise TypeError(f"{op}: {name} is {value!r}, wanted an integer or a tensor of one a row")
    return value, None


class Chain(NamedTuple):
    """What leads from logits to a row's law, as the ops' arguments."""

    temperature: float
    filters: tuple  # from top_k to prev_tokens
    tensors: tuple  # the twins of the temperature and of the filters


def chain(op, temperature, top_k, top_p, min_p, repetition_penalty, prev_tokens):
    temperature, temperatures = real(op, "temperature", temperature, 1.0, single=True)
    top_k, top_ks = integer(op, "top_k", top_k)
    top_p, top_ps = real(op, "top_p", top_p, 1.0)
    min_p, min_ps = real(op, "min_p", min_p, 0.0)
    penalty, penalties = real(
        op, "repetition_penalty", repetition_penalty, 1.0, positive=True, single=True
    )
    # Beyond what fits 64 bits k is as off as at the largest vocabulary, or at 0.
    top_k = max(0, min(top_k, 1 << 20)) if top_ks is None and isinstance(top_k, int) else top_k
    if prev_tokens is not None and not isinstance(prev_tokens, torch.Tensor):
        kind = type(prev_tokens).__name__
        raise TypeError(f"{op}: prev_tokens is a {kind}, wanted an int64 tensor or None")
    return Chain(
        temperature,
        (top_k, top_p, min_p, penalty, prev_tokens),
        (temperatures, top_ks, top_ps, min_ps, penalties),
    )


def are_numbers(temperature, top_k, top_p, min_p, repetition_penalty, seed=0, offset=0):
    """Whether all are numbers, as in nearly every call: then the op may be called at once. It
    raises a RuntimeError for one without meaning; whoever calls it then goes the long way, which
    says what is wrong, or makes do.

    The op draws a missing seed, but for a graph that is being compiled, whose draws must be in
    sight of the compiler: it would take two calls that look alike for one."""
    return (
        type(top_k) is int
        and type(offset) is int
        and type(temperature) in _PLAIN
        and type(top_p) in _PLAIN
        and type(min_p) in _PLAIN
        and type(repetition_penalty) in _PLAIN
        and (not is_compiling() if seed is None else type(seed) is int and -_SEEDS <= seed < _SEEDS)
    )


def noise(op, seed, offset, temperature, device):
    """Seed and offset as an op's arguments: (seed or None, offset, their twins)."""
    if seed is None and is_compiling():
        greedy = type(temperature) in _PLAIN and temperature <= 0
        seed = 0 if greedy else torch.randint(_SEEDS - 1, (1,), device=device)
    seed, seeds = (None, None) if seed is None else integer(op, "seed", seed)
    offset, offsets = integer(op, "offset", offset)
    if not 0 <= offset < _OFFSETS:
        raise ValueError(f"{op}: offset is {offset}, wanted 0 <= offset < 2**60")
    if seed is not None and not -_SEEDS <= seed < _SEEDS:
        seed = (seed + _SEEDS) % (2 * _SEEDS) - _SEEDS
    return seed, offset, (seeds, offsets)


def uniforms(generator, shape, device):
    """Uniform float64 numbers for tensors on `device`, drawn where the generator is.

    They are torch.rand's, which takes twice as long to read its arguments."""
    drawn = torch.empty(
        shape, dtype=torch.float64, device=generator.device if generator else device
    )
    return drawn.uniform_(generator=generator).to(device, non_blocking=True)


def algorithm(op, name):
    """Its place among ALGORITHMS, as the ops count them."""
    if name not in ALGORITHMS:
        raise ValueError(f'{op}: algorithm is {name!r}, wanted "auto", "sort" or "select"')
    return ALGORITHMS.index(name)


def generator(op, value):
    if value is not None and not isinstance(value, torch.Generator):
        raise TypeError(f"{op}: generator is {value!r}, wanted a torch.Generator or None")
    return value


def tensor(op, name, value):
    """`value` if it is a tensor; a TypeError that says what it is if not."""
    if isinstance(value, torch.Tensor):
        return value
    raise TypeError(f"{op}: {name} is a {type(value).__name__}, wanted a tensor")


def require_one_device(op, leader, *arguments):
    """For the fakes, to which one meta tensor brings a call whose other tensors are real."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and argument.device.type != leader.device.type:
            raise RuntimeError(
                f"{op}: a tensor is on {argument.device}, wanted {leader.device}, the device of "
                "the first"
            )
