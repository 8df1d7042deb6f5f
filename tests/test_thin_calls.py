# SPDX-License-Identifier: Apache-2.0
"""The short way: a call of numbers alone gives its op no more than it needs, and the op draws the
seed or the uniforms that the call does not bring."""

import itertools

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


def test_a_value_without_meaning_never_takes_the_short_way(sdo):
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
        ("offset", -1),
        ("offset", 1 << 60),
    ]
    for name, value in bad:
        with pytest.raises(ValueError, match=f"sample: {name} is "):
            sdo.sample(logits(), **{**good, name: value})
    for name in good:
        for value in (True, "1"):
            with pytest.raises(TypeError, match=f"sample: {name} is "):
                sdo.sample(logits(), **{**good, name: value})


def test_a_greedy_call_draws_no_seed_and_any_other_draws_one(sdo):
    for temperature, draws in ((0, False), (-1.0, False), (0.8, True)):
        before = torch.get_rng_state()
        sdo.sample(logits(), temperature)
        assert torch.equal(before, torch.get_rng_state()) != draws
