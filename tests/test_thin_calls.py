# SPDX-License-Identifier: Apache-2.0
"""The short way: a call of numbers alone gives its op no more than it needs, and the op draws the
seed or the uniforms that the call does not bring."""

import itertools
import re

import pytest
import torch
from torch.library import opcheck

B, V = 3, 37


def logits(rows=B, vocab=V):
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(5)) * 3


def tensor_of(value, dtype=torch.float32):
    return torch.tensor([value], dtype=dtype)


@pytest.mark.parametrize("prev", [None, torch.tensor([1, 4, 4, -1, V])])
@pytest.mark.parametrize("seed", [0, -1, (1 << 63) - 1, -(1 << 63)])
def test_numbers_and_tensors_draw_the_same_token(sdo, prev, seed):
    """A parameter that is a tensor goes the long way."""
    x = logits()
    choices = itertools.product((0, 0.7, 2), (0, 5, V + 1), (1, 0.8, 0), (0, 0.1, 1), (1.0, 1.3))
    for temperature, top_k, top_p, min_p, penalty in choices:
        rest = top_k, top_p, min_p, penalty, prev, seed, 9
        short = sdo.sample(x, temperature, *rest)
        assert short.tolist() == sdo.sample(x, tensor_of(temperature), *rest).tolist()


@pytest.mark.parametrize("history", [None, torch.tensor([1, 4, -1]), torch.tensor([[1], [4], [2]])])
def test_a_drawn_seed_is_the_one_that_a_call_with_tensors_draws(sdo, history):
    x = logits()

    def drawn(temperature):
        torch.manual_seed(11)
        calls = range(20)
        return [sdo.sample(x, temperature, 20, prev_tokens=history).tolist() for _ in calls]

    short = drawn(0.8)
    assert short == drawn(tensor_of(0.8))
    assert len({tuple(tokens) for tokens in short}) > 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"logits": torch.zeros(B, V, dtype=torch.float64)},
        {"logits": torch.zeros(2, B, V)},
        {"logits": torch.tensor(1.0)},
        {"logits": torch.zeros(B, 0)},
        {"logits": torch.zeros(V, B).T},
        {"prev_tokens": torch.zeros(B + 1, 2, dtype=torch.int64)},
        {"prev_tokens": torch.zeros(B, dtype=torch.int32)},
        {"prev_tokens": torch.tensor(0)},
    ],
)
def test_a_refused_call_draws_no_seed(sdo, wrong):
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="wanted"):
        sdo.sample(**{"logits": logits(), **wrong})
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("shape", [(B, V), (0, V), (V,)])
def test_opcheck_of_the_short_way(sdo, shape):
    ops, x = sdo._ops.ops, torch.randn(shape)
    filters = 5, 0.9, 0.1, 1.1, torch.tensor([1, 2])
    for given in ((), filters):
        opcheck(ops.sample.numbers, (x, 0.8, 3, 4, *given))
        opcheck(ops.filter_logits.numbers, (x, 0.8, *given))
        if len(shape) == 2:
            rows = x[:, None].expand(-1, 3, -1), None, torch.zeros(shape[0], 2, dtype=torch.int64)
            opcheck(ops.verify.numbers, (*rows, 0.8, 3, 4, 0, *given))


def test_a_value_without_meaning_is_a_value_error(sdo):
    good = {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1}
    good.update(seed=1, offset=2)
    bad = [
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", 1e-46),
        ("top_p", float("nan")),
        ("min_p", float("inf")),
        ("repetition_penalty", 0),
        ("repetition_penalty", float("nan")),
        ("temperature", 10**400),
        ("repetition_penalty", -(10**400)),
        ("offset", -1),
        ("offset", 1 << 60),
        ("offset", 1 << 70),
    ]
    for name, value in bad:
        with pytest.raises(ValueError, match=f"sample: {name} is "):
            sdo.sample(logits(), **{**good, name: value})
    for name in good:
        for value in (True, "1"):
            with pytest.raises(TypeError, match=f"sample: {name} is "):
                sdo.sample(logits(), **{**good, name: value})


def test_numbers_that_an_op_cannot_take_go_the_long_way(sdo):
    x = logits()
    for name, value, same in (
        ("top_k", 1 << 70, 0),
        ("top_k", -(1 << 70), 0),
        ("seed", (1 << 64) + 3, 3),
        ("seed", (1 << 64) - 3, -3),
        ("top_p", 10, 1.0),
        ("min_p", -10, 0.0),
    ):
        of = {"seed": 3}
        wanted = sdo.sample(x, **{**of, name: same})
        assert sdo.sample(x, **{**of, name: value}).tolist() == wanted.tolist()


WITHOUT_MEANING = [
    ("temperature", float("nan")),
    ("temperature", float("-inf")),
    ("temperature", 4e38),
    ("temperature", 2.0**-150),
    ("top_p", float("inf")),
    ("min_p", float("nan")),
    ("repetition_penalty", 0.0),
    ("repetition_penalty", -1.5),
    ("repetition_penalty", 2.0**-150),
    ("offset", -1),
    ("offset", 1 << 60),
]


@pytest.mark.parametrize("name, value", WITHOUT_MEANING)
def test_the_ops_themselves_refuse_a_number_without_meaning(sdo, name, value):
    """The short way counts on it; it is what a compiled graph and a direct call meet."""
    filters = {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.1}
    filters["repetition_penalty"] = 1.1
    given = value if name == "offset" else f"{value:g}"
    refused = pytest.raises(RuntimeError, match=re.escape(f"{name} is {given}, wanted"))
    x, round_ = logits(), (torch.zeros(B, 3, V), None, torch.zeros(B, 2, dtype=torch.int64))
    noise = {"seed": 1, "offset": 2}
    rest = {**filters, name: value}
    for op in (sdo._ops.ops.sample, sdo._ops.ops.verify):
        tensors, rule = ((x,), {}) if "sample" in str(op) else (round_, {"rule": 0})
        for overload in (op.default, op.numbers):
            with refused:
                overload(*tensors, **{**noise, **rest}, **rule)
    if name != "offset":
        for overload in (sdo._ops.ops.filter_logits.default, sdo._ops.ops.filter_logits.numbers):
            with refused:
                overload(x, **rest)


def test_a_greedy_call_draws_no_seed_and_any_other_draws_one(sdo):
    for temperature, draws in ((0, False), (-1.0, False), (0.8, True)):
        before = torch.get_rng_state()
        sdo.sample(logits(), temperature)
        assert torch.equal(before, torch.get_rng_state()) != draws
