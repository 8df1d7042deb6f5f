# SPDX-License-Identifier: Apache-2.0
"""return_logprobs: what emitted tokens had for log-probability, beside float64 log_softmax."""

import math

import cases
import pytest
import torch
from cases import DTYPES, FAMILIES, FILTERS, INF, LAYOUTS, NAN, with_history
from torch.library import opcheck

# What the docstring promises.
ABSOLUTE, RELATIVE = 2.0**-18, 2.0**-22
OFF = (0, 1.0, 0.0, 1.0)


def is_within(found, exact):
    """Whether each is as near as promised; -inf and NaN are themselves."""
    finite = exact.isfinite()
    near = (found.double() - exact).abs() <= ABSOLUTE + RELATIVE * exact.abs()
    alike = (found.double() == exact) | (found.isnan() & exact.isnan())
    return bool(torch.where(finite, near, alike).all())


def clean(x):
    """float64 logits as the ops take them: NaN counts -inf, +inf entries share the row."""
    x = x.double()
    x = x.masked_fill(x.isnan(), -INF)
    shared = torch.where(x == INF, 0.0, -INF)
    return torch.where((x == INF).any(-1, keepdim=True), shared, x)


def exact_of_rows(sdo, x, arguments):
    """(filtered, unfiltered) log-probabilities [..., V] in float64, with the op's own kept sets."""
    temperature = torch.as_tensor(arguments.get("temperature", 1.0)).float().double()
    kept = sdo.filter_logits(x, **arguments) > -INF
    previous, penalty = arguments.get("prev_tokens"), arguments.get("repetition_penalty", 1.0)
    y = clean(sdo.reference.penalise(x, penalty, previous))
    y = torch.where(temperature.unsqueeze(-1) > 0, y / temperature.unsqueeze(-1), 0.0)
    return y.masked_fill(~kept, -INF).log_softmax(-1), clean(x).log_softmax(-1)


def at(rows, tokens):
    """The tokens' entries; NaN for -1."""
    return rows.gather(-1, tokens.clamp(min=0)[..., None])[..., 0].masked_fill(tokens < 0, NAN)


def of_every_token(sdo, x, **arguments):
    """(filtered, unfiltered) [V] of all tokens of one row, by the op itself."""
    vocab = len(x)
    names = ("top_k", "top_p", "min_p", "repetition_penalty")
    values = [arguments.get(name, off) for name, off in zip(names, OFF)]
    rows = x.expand(vocab, 1, vocab)
    temperature = arguments.get("temperature", 1.0)
    found = sdo._ops.ops.logprobs.default(rows, torch.arange(vocab)[:, None], temperature, *values)
    return [each[:, 0] for each in found]


# ---- The values ----


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("vocab", [1, 31, 512, 513, 4097])
def test_sampled_tokens_have_the_logprobs_of_float64(sdo, vocab, name):
    for i, family in enumerate(FAMILIES):
        x = cases.rows(family, 6, vocab, DTYPES[i % 3])
        arguments = with_history(FILTERS[name], 6, vocab)
        token, logprobs = sdo.sample(x, seed=3, return_logprobs=True, **arguments)
        filtered, unfiltered = exact_of_rows(sdo, x, arguments)
        assert is_within(logprobs.filtered, at(filtered, token)), family
        assert is_within(logprobs.unfiltered, at(unfiltered, token)), family


@pytest.mark.parametrize("family", ["normal", "flat", "peaked"])
def test_long_rows_have_the_logprobs_of_float64(sdo, family):
    x = cases.rows(family, 2, 128256)
    for arguments in ({}, {"temperature": 0.7}, {"top_p": 0.95, "temperature": 1.3}):
        token, logprobs = sdo.sample(x, seed=5, return_logprobs=True, **arguments)
        filtered, unfiltered = exact_of_rows(sdo, x, arguments)
        assert is_within(logprobs.filtered, at(filtered, token))
        assert is_within(logprobs.unfiltered, at(unfiltered, token))


@pytest.mark.parametrize("name", FILTERS)
def test_the_reference_gives_the_same(sdo, name):
    """But for its x / T, which float32 rounds: by 2**-24 of up to 10 / 1e-3 where it is cold."""
    x = cases.rows("normal", 8, 600)
    arguments = with_history(FILTERS[name], 8, 600)
    token, logprobs = sdo.sample(x, seed=3, return_logprobs=True, **arguments)
    for a, b in zip(logprobs, sdo.reference.logprobs(x, token, **arguments)):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=2e-3 if name == "cold" else 1e-5)


HARD_ROWS = {
    "one sure token": torch.tensor([0.0, -12.0, -25.0, -30.0, -80.0, -1000.0]),
    "mass far from the largest": torch.cat([torch.tensor([0.0]), torch.full((1023,), -13.8)]),
    "strips far apart": torch.arange(2048.0).div(512, rounding_mode="floor") * -9.0,
    "huge": torch.tensor([3e38, 2.9e38, -3e38, 0.0]),
    "subnormal": torch.tensor([1e-40, -1e-40, 0.0, -0.0]),
    "far from 0": 10_000 + torch.linspace(-3, 3, 700),
}


@pytest.mark.parametrize("temperature", [1.0, 0.3, 7.0, 1e-3])
@pytest.mark.parametrize("name", HARD_ROWS)
def test_tokens_of_hardly_any_mass_are_as_near(sdo, name, temperature):
    """Down to log p = -1e6 and less: their masses round to 0."""
    x = HARD_ROWS[name]
    filtered, unfiltered = of_every_token(sdo, x, temperature=temperature)
    largest = torch.finfo(torch.float32).max
    exact = (x.double() / torch.tensor(temperature).double()).log_softmax(-1)
    assert is_within(filtered, exact.clamp(min=-largest))
    assert is_within(unfiltered, x.double().log_softmax(-1).clamp(min=-largest))


def test_the_logprob_of_a_nearly_sure_token_is_not_rounded_to_0(sdo):
    """Its relative error is small down to where no mass is left."""
    for distance in (5.0, 10.0, 20.0):
        filtered, _ = of_every_token(sdo, torch.tensor([0.0, -distance]))
        exact = -math.log1p(math.exp(-distance))
        assert abs(filtered[0].item() / exact - 1) < 1e-3


def test_the_bound_rejects_logprobs_that_are_off_by_a_little_more(sdo):
    exact = torch.tensor([-1e-3, -1.0, -20.0, -INF, NAN], dtype=torch.float64)
    assert is_within(exact.float(), exact)
    for off in (2e-5, -2e-5):
        for i in range(3):
            wrong = exact.clone()
            wrong[i] += off
            assert not is_within(wrong, exact)
    assert not is_within(torch.tensor([-1e-3, -1.0, -20.0, -1e30, NAN]), exact)
    assert not is_within(torch.tensor([-1e-3, -1.0, -20.0, -INF, 0.0]), exact)


def test_the_logprobs_are_those_of_a_softmax(sdo):
    """Over all tokens their exponentials add up to 1, to the promised error."""
    x = cases.rows("normal", 1, 3000)[0]
    for arguments in ({}, {"temperature": 0.6}, {"top_k": 50}, {"top_p": 0.9, "min_p": 0.01}):
        for each in of_every_token(sdo, x, **arguments):
            assert abs(each.double().exp().sum().item() - 1) < 2 * ABSOLUTE


# ---- Rows with special values ----


def test_a_dropped_token_has_minus_infinity(sdo):
    x = cases.rows("ties", 1, 600)[0]
    for arguments in ({"top_k": 9}, {"top_p": 0.4}, {"min_p": 0.2}, {"temperature": 0.0}):
        filtered, unfiltered = of_every_token(sdo, x, **arguments)
        kept = sdo.filter_logits(x, **arguments) > -INF
        if arguments.get("temperature") != 0.0:
            assert torch.equal(filtered > -INF, kept)
        assert (unfiltered > -INF).all()


def test_a_greedy_row_is_sure_of_its_token(sdo):
    x = cases.rows("normal", 4, 999)
    token, logprobs = sdo.sample(x, temperature=0.0, return_logprobs=True)
    assert logprobs.filtered.tolist() == [0.0] * 4
    assert is_within(logprobs.unfiltered, at(x.double().log_softmax(-1), token))
    assert not logprobs.filtered.signbit().any()


def test_a_row_without_a_token_has_nan(sdo):
    x = cases.rows("normal", 3, 700)
    x[0], x[2] = NAN, -INF
    for arguments in FILTERS.values():
        token, logprobs = sdo.sample(x, seed=1, return_logprobs=True, **arguments)
        assert token.tolist()[::2] == [-1, -1]
        for values in logprobs:
            assert values.isnan().tolist() == [True, False, True]


@pytest.mark.parametrize("name", FILTERS)
def test_infinite_logits_share_the_row(sdo, name):
    x = cases.rows("normal", 2, 1100)
    x[:, [3, 700, 701]], x[:, 5] = INF, NAN
    arguments = with_history(FILTERS[name], 2, 1100)
    token, logprobs = sdo.sample(x, seed=1, return_logprobs=True, **arguments)
    filtered, unfiltered = exact_of_rows(sdo, x, arguments)
    assert is_within(logprobs.filtered, at(filtered, token))
    assert is_within(logprobs.unfiltered, torch.full((2,), -math.log(3)).double())


# ---- verify ----


def a_round(rows, k, vocab, seed=3):
    g = torch.Generator().manual_seed(seed)
    target = 2 * torch.randn(rows, k + 1, vocab, generator=g)
    draft = target[:, :k] + 0.7 * torch.randn(rows, k, vocab, generator=g)
    return target, draft, draft.softmax(-1).view(-1, vocab).multinomial(1, generator=g).view(-1, k)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("method", ["token", "coupled"])
def test_verified_tokens_have_the_logprobs_of_their_positions(sdo, name, method):
    """A position has seen the tokens emitted before it; what is not emitted has NaN."""
    target, draft, tokens = a_round(6, 3, 700)
    tokens[0, 1], tokens[1, 0] = -1, 700
    arguments = with_history(FILTERS[name], 6, 700)
    plain = sdo.verify(target, draft, tokens, seed=2, method=method, **arguments)
    *verdict, logprobs = sdo.verify(
        target, draft, tokens, seed=2, method=method, return_logprobs=True, **arguments
    )
    assert all(torch.equal(a, b) for a, b in zip(plain, verdict))
    accept_len, out = verdict
    emitted = torch.arange(4) <= accept_len[:, None]
    for values in logprobs:
        assert values.shape == out.shape and values.dtype == torch.float32
        assert torch.equal(values.isnan(), ~emitted)
    seen = arguments.pop("prev_tokens", torch.empty(6, 0, dtype=torch.int64))
    for i in range(4):
        here = dict(arguments, prev_tokens=torch.cat([seen, out[:, :i]], 1))
        filtered, unfiltered = exact_of_rows(sdo, target[:, i], here)
        assert is_within(logprobs.filtered[:, i], at(filtered, out[:, i]))
        assert is_within(logprobs.unfiltered[:, i], at(unfiltered, out[:, i]))


def test_each_row_has_its_own_parameters(sdo):
    target, draft, tokens = a_round(5, 2, 900)
    arguments = {
        "temperature": torch.tensor([0.0, 0.7, 1.0, 2.0, 1.0]),
        "top_k": torch.tensor([0, 5, 900, 50, 3]),
        "top_p": torch.tensor([0.9, 1.0, 1.0, 0.3, 0.1]),
        "repetition_penalty": torch.tensor([1.0, 1.3, 1.0, 0.7, 2.0]),
        "prev_tokens": cases.history(5, 20, 900),
    }
    *_, out, logprobs = sdo.verify(
        target, draft, tokens, seed=torch.arange(5), return_logprobs=True, **arguments
    )
    for b in range(5):
        one = {name: value[b : b + 1] for name, value in arguments.items()}
        *_, alone = sdo.verify(
            *(each[b : b + 1] for each in (target, draft, tokens)),
            seed=torch.tensor([b]),
            return_logprobs=True,
            **one,
        )
        for all_, own in zip(logprobs, alone):
            assert cases.same_bits(all_[b : b + 1], own)


# ---- Sampling does not change ----


@pytest.mark.parametrize("name", FILTERS)
def test_asking_changes_no_token(sdo, name):
    x = cases.rows("normal", 4, 999)
    arguments = with_history(FILTERS[name], 4, 999)
    token, _ = sdo.sample(x, seed=9, return_logprobs=True, **arguments)
    assert torch.equal(token, sdo.sample(x, seed=9, **arguments))
    torch.manual_seed(4)
    plain = sdo.sample(x, **arguments)
    state = torch.get_rng_state()
    torch.manual_seed(4)
    token, _ = sdo.sample(x, return_logprobs=True, **arguments)
    assert torch.equal(token, plain)
    assert torch.equal(torch.get_rng_state(), state)


def test_shapes_are_those_of_the_tokens(sdo):
    for shape in ((), (0,), (1,), (5,)):
        token, logprobs = sdo.sample(torch.randn(*shape, 40), seed=1, return_logprobs=True)
        assert [each.shape for each in (token, *logprobs)] == [shape] * 3
        assert [each.dtype for each in logprobs] == [torch.float32] * 2
    for rows, k in ((0, 2), (3, 0)):
        target, draft, tokens = torch.zeros(rows, k + 1, 9), torch.zeros(rows, k, 9), None
        tokens = torch.zeros(rows, k, dtype=torch.int64)
        *_, logprobs = sdo.verify(target, draft, tokens, seed=1, return_logprobs=True)
        assert [each.shape for each in logprobs] == [(rows, k + 1)] * 2


# ---- The same bits ----


def of_families(sdo):
    """Logprobs of many rows, as one tensor of bits."""
    found = []
    for family in FAMILIES:
        for name in ("off", "temperature", "chain", "half", "penalty", "greedy"):
            x = cases.rows(family, 2, 1537)
            arguments = with_history(FILTERS[name], 2, 1537)
            _, logprobs = sdo.sample(x, seed=11, return_logprobs=True, **arguments)
            found += [cases.bits(each) for each in logprobs]
    return torch.stack(found)


def test_every_cpu_target_gives_the_same_bits(sdo):
    best = sdo._cpu_target()
    try:
        wanted = of_families(sdo)
        sdo._cpu_target("scalar")
        assert torch.equal(of_families(sdo), wanted)
    finally:
        sdo._cpu_target(best)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layout_does_not_matter(sdo, layout, dtype):
    x = cases.rows("holes", 3, 999, dtype)
    for arguments in FILTERS.values():
        _, plain = sdo.sample(x, seed=1, return_logprobs=True, **arguments)
        _, moved = sdo.sample(layout(x), seed=1, return_logprobs=True, **arguments)
        _, wide = sdo.sample(x.float(), seed=1, return_logprobs=True, **arguments)
        for a, b, c in zip(plain, moved, wide):
            assert cases.same_bits(a, b) and cases.same_bits(a, c)


def test_inputs_are_not_written_to(sdo):
    x, previous = cases.rows("holes", 2, 999), cases.history(2, 30, 999)
    copies = x.clone(), previous.clone()
    for name in ("chain", "penalty", "off"):
        sdo.sample(x, seed=1, prev_tokens=previous, return_logprobs=True, **FILTERS[name])
    torch.testing.assert_close(x, copies[0], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(previous, copies[1])


# ---- As torch sees it ----


@pytest.mark.kernels_ci
def test_opcheck_of_logprobs(sdo):
    target, _, tokens = a_round(3, 1, 40)
    tensors = [torch.ones(3), torch.tensor([4]), torch.ones(1), torch.zeros(3), torch.ones(1)]
    for more in ((), (*OFF, tokens, 0, *tensors)):
        opcheck(sdo._ops.ops.logprobs.default, (target[:, :1], tokens, 1.0, *more))


def test_a_compiled_call_returns_the_same(sdo):
    x = cases.rows("normal", 3, 40)

    def call(logits, offset):
        return sdo.sample(logits, 0.8, 20, seed=5, offset=offset, return_logprobs=True)

    torch.compiler.reset()
    token, logprobs = torch.compile(call, backend="aot_eager", fullgraph=True)(x, 2)
    same, wanted = call(x, 2)
    assert torch.equal(token, same)
    assert all(cases.same_bits(a, b) for a, b in zip(logprobs, wanted))


def test_wrong_tokens_are_refused_by_the_op(sdo):
    x = torch.zeros(3, 2, 40)
    for wrong in (torch.zeros(3, 2), torch.zeros(3, 1).long(), torch.zeros(2).long()):
        with pytest.raises(RuntimeError, match="logprobs: tokens is .*, wanted int64 of shape"):
            sdo._ops.ops.logprobs.default(x, wrong, 1.0)
    for wrong in (torch.zeros(2, 1), torch.zeros(3).long(), torch.tensor(1)):
        with pytest.raises(RuntimeError, match="logprobs: tokens is .*, wanted int64 of shape"):
            sdo._ops.ops.logprobs.default(x[0], wrong, 1.0)
    with pytest.raises(RuntimeError, match=r"logprobs: logits is .*, wanted shape \[V\], \[B, V"):
        sdo._ops.ops.logprobs.default(x[None], torch.zeros(1, 3, 2).long(), 1.0)
