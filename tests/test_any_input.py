# SPDX-License-Identifier: Apache-2.0
"""Whatever the input, the public functions give the oracle's bits: Hypothesis looks for an
exception, among values, sizes, dtypes, layouts and parameters of every kind.

The environment may set FUZZ_EXAMPLES, how many inputs are tried in all, and FUZZ_SEED, to try
others than those of every run (`make fuzz`).
"""

import os

import cases
import pytest
import torch
from fuzz import answers, inputs, refusals
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from oracle import oracle

pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 2000))
SEED = os.environ.get("FUZZ_SEED")


def share(percent):
    """This share of all examples. The same at each run, but with a seed."""

    def decorate(test):
        test = settings(
            derandomize=not SEED,
            deadline=None,
            database=None,
            max_examples=max(1, EXAMPLES * percent // 100),
            suppress_health_check=list(HealthCheck),
        )(test)
        return seed(int(SEED))(test) if SEED else test

    return decorate


def outcome(call, valid, validate):
    """What the call returns; None if it was right to raise on values."""
    if valid or not validate:
        return call()
    with pytest.raises(ValueError):
        call()
    return None


ROWS = {"data": st.data(), "batch": inputs.OF_4, "vocab": inputs.VOCAB, "validate": inputs.BOOLEAN}


@share(30)
@given(**ROWS)
def test_any_row_is_filtered_and_drawn_as_the_oracle_does(sdo, data, batch, vocab, validate):
    logits = data.draw(inputs.rows(inputs.LOGITS, (batch,), vocab))
    arguments = data.draw(inputs.filters(batch, vocab))
    noise = data.draw(inputs.noise(batch))
    given_logits = inputs.laid_out(logits, data.draw(inputs.LAYOUT))
    one_row = batch == 1 and data.draw(inputs.BOOLEAN)
    if one_row:
        given_logits = given_logits[0]
    before = given_logits.detach().clone()
    valid = answers.is_valid(logits, None, torch.empty(0).long(), arguments.get("prev_tokens"))

    filtered = outcome(
        lambda: sdo.filter_logits(given_logits, **arguments, validate=validate), valid, validate
    )
    drawn = outcome(
        lambda: sdo.sample(given_logits, **arguments, **noise, validate=validate), valid, validate
    )
    if drawn is not None:
        assert filtered.shape == given_logits.shape and drawn.shape == given_logits.shape[:-1]
        expected = answers.filter_logits(logits, arguments)
        assert cases.same_bits(filtered.view(expected.shape), expected)
        assert drawn.reshape(-1).tolist() == answers.sample(logits, {**arguments, **noise})
    integers = torch.int32 if logits.dtype == torch.float32 else torch.int16
    after = given_logits.detach().clone()
    assert torch.equal(before.view(integers), after.view(integers))


@inputs.made_once
@st.composite
def rounds(draw, table):
    """Target, draft or None, and draft tokens of a batch: [B, k + 1, V], [B, k, V'], [B, k]."""
    batch, k, vocab = draw(inputs.OF_4), draw(inputs.OF_4), draw(inputs.VOCAB)
    if vocab > 100:
        batch, k = min(batch, 1), min(k, 2)
    target = draw(inputs.rows(table, (batch, k + 1), vocab))
    kind, draft = draw(inputs.OF_4), None
    if kind == 1:
        draft = draw(inputs.rows(table, (batch, k), draw(inputs.VOCAB)))
    elif kind == 2:
        draft = draw(inputs.rows(table, (batch, k), vocab))
    elif kind == 3:
        draft = target[:, :k].clone()
    return target, draft, draw(inputs.token_tensor((batch, k), vocab))


def placed(draw, target, draft):
    """The same rows in other memory."""
    target = inputs.laid_out(target, draw(inputs.LAYOUT))
    return target, None if draft is None else inputs.laid_out(draft, draw(inputs.LAYOUT))


ROUNDS = {"data": st.data(), "round": rounds(inputs.LOGITS), "validate": inputs.BOOLEAN}


@share(25)
@given(**ROUNDS, coupled=inputs.BOOLEAN)
def test_any_round_is_verified_as_the_oracle_does(sdo, data, round, coupled, validate):
    target, draft, tokens = round
    batch = len(target)
    arguments = data.draw(inputs.filters(batch, target.shape[-1]))
    noise = data.draw(inputs.noise(batch))
    valid = answers.is_valid(*round, arguments.get("prev_tokens"))
    verified = outcome(
        lambda: sdo.verify(
            *placed(data.draw, target, draft),
            tokens,
            **arguments,
            **noise,
            method="coupled" if coupled else "token",
            validate=validate,
        ),
        valid,
        validate,
    )
    if verified is not None:
        accept_len, out = verified
        assert accept_len.shape == (batch,) and out.shape == target.shape[:2]
        expected = answers.verify(target, draft, tokens, {**arguments, **noise}, coupled)
        assert list(zip(accept_len.tolist(), out.tolist())) == expected


@share(5)
@given(data=st.data(), round=rounds(inputs.LOGITS), temperature=inputs.TEMPERATURE)
def test_any_words_decide_as_the_oracle_does(sdo, data, round, temperature):
    target, draft, tokens = round
    batch, positions = target.shape[:2]
    words = data.draw(inputs.words(batch * positions))
    signed = torch.tensor([inputs.signed(word) for word in words], dtype=torch.int64)
    accept_len, out = sdo._verify_with_words(
        *placed(data.draw, target, draft), tokens, signed.view(batch, positions), temperature
    )
    for b, ids in enumerate(tokens.tolist()):
        own = words[b * positions : (b + 1) * positions]
        rows = None if draft is None else draft[b]
        n, token = oracle.verify(target[b], rows, ids, oracle.Filter(temperature), words=own)
        expected = [*ids[:n], token, *[-1] * (len(ids) - n)]
        assert (accept_len[b].item(), out[b].tolist()) == (n, expected)


SEQUENCES = {**ROUNDS, "round": rounds(inputs.PROBABILITIES), "normalized": inputs.BOOLEAN}


@share(20)
@given(**SEQUENCES)
def test_any_sequence_is_accepted_as_the_oracle_does(sdo, data, round, normalized, validate):
    target, draft, tokens = round
    batch, positions = target.shape[:2]
    count = batch * positions
    uniforms = [(word >> 11) * 2.0**-53 for word in data.draw(inputs.words(count))]
    uniforms = torch.tensor(uniforms, dtype=torch.float64).view(batch, positions)
    valid = answers.is_valid(*round, probabilities=True)
    given_target, given_draft = placed(data.draw, target, draft)
    accepted = outcome(
        lambda: sdo.accept(
            given_target,
            given_draft,
            tokens,
            uniforms=uniforms,
            normalized=normalized,
            validate=validate,
        ),
        valid,
        validate,
    )
    if accepted is not None:
        expected = [
            oracle.accept(target[b], None if draft is None else draft[b], ids, u, normalized)
            for b, (ids, u) in enumerate(zip(tokens.tolist(), uniforms.tolist()))
        ]
        assert list(zip(*(result.tolist() for result in accepted))) == expected
        for b, result in enumerate(expected):
            draft_row = None if draft is None else given_draft[b]
            one = (given_target[b], draft_row, tokens[b], uniforms[b].contiguous())
            assert sdo._accept_with_uniforms(*one, normalized=normalized) == result


@share(8)
@given(**ROUNDS)
def test_any_greedy_round_is_verified_as_the_oracle_does(sdo, data, round, validate):
    target, _, tokens = round
    given_target, _ = placed(data.draw, target, None)
    valid = answers.is_valid(target, None, tokens)
    verified = outcome(
        lambda: sdo.verify_greedy(given_target, tokens, validate=validate), valid, validate
    )
    if verified is not None:
        rows = zip(target, tokens.tolist())
        expected = [oracle.verify_greedy(row, ids) for row, ids in rows]
        assert list(zip(*(result.tolist() for result in verified))) == expected
        for b, result in enumerate(expected):
            assert sdo.verify_greedy(given_target[b], tokens[b]) == result


@share(12)
@given(refused=refusals.calls())
def test_any_bad_argument_is_refused_by_name_and_nothing_is_drawn(sdo, refused):
    op, arguments, names = refused
    before = torch.get_rng_state()
    with pytest.raises((ValueError, TypeError, RuntimeError)) as error:
        getattr(sdo, op)(**arguments)
    assert torch.equal(torch.get_rng_state(), before)
    text = str(error.value)
    if not isinstance(error.value, NotImplementedError):  # torch's own, where no kernel is
        assert text.startswith(f"{op}: ") and "wanted" in text or "is 0 in float32" in text
        assert any(name in text for name in [*names, "a tensor is on"])


# ---- Small flaws, each of which has to be found ----


class Flawed:
    """The package with a flaw in one of its functions."""

    def __init__(self, sdo, name, flaw):
        self._right = sdo
        right = getattr(sdo, name)
        setattr(self, name, lambda *rows, **named: flaw(right, rows, named))

    def __getattr__(self, name):
        return getattr(self._right, name)


def loses_the_sign_of_zero(right, rows, named):
    return right(*rows, **named) + 0.0


def knows_32_bits_of_an_offset(right, rows, named):
    return right(*rows, **{**named, "offset": named["offset"] % 2**32})


def keeps_nan_for_zero(right, rows, named):
    return right(rows[0].detach().nan_to_num(0.0, torch.inf, -torch.inf), *rows[1:], **named)


def forgets_a_narrow_drafts_end(right, rows, named):
    target, draft, tokens = rows
    if draft is not None and draft.shape[-1] < target.shape[-1]:
        draft = torch.nn.functional.pad(draft, (0, target.shape[-1] - draft.shape[-1]))
    return right(target, draft, tokens, **named)


def takes_every_row_for_normalised(right, rows, named):
    return right(*rows, **{**named, "normalized": True})


FLAWS = [
    (test_any_row_is_filtered_and_drawn_as_the_oracle_does, ROWS, "filter_logits", flaw)
    for flaw in (loses_the_sign_of_zero, keeps_nan_for_zero)
]
FLAWS += [
    (test_any_row_is_filtered_and_drawn_as_the_oracle_does, ROWS, "sample", flaw)
    for flaw in (knows_32_bits_of_an_offset, keeps_nan_for_zero)
]
FLAWS += [
    (
        test_any_round_is_verified_as_the_oracle_does,
        {**ROUNDS, "coupled": st.just(False)},
        "verify",
        forgets_a_narrow_drafts_end,
    ),
    (
        test_any_sequence_is_accepted_as_the_oracle_does,
        SEQUENCES,
        "accept",
        takes_every_row_for_normalised,
    ),
]


@pytest.mark.parametrize(
    "test, strategies, name, flaw",
    FLAWS,
    ids=[f"{name}-{flaw.__name__}" for _, _, name, flaw in FLAWS],
)
def test_a_small_flaw_is_found(sdo, test, strategies, name, flaw):
    a_run = settings(
        derandomize=True,
        deadline=None,
        database=None,
        max_examples=600,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    again = a_run(given(**strategies)(test.hypothesis.inner_test))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        again(Flawed(sdo, name, flaw))
