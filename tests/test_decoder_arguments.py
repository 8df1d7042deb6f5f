# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder: where its randomness comes from, and what it refuses."""

import math
import sys

import pytest
import torch
from test_decoder import plain_sampling
from toy_models import DRAFTS, OTHER, PROMPT, TARGET, VOCAB, soft_draft


def sampler(sdo, draft=DRAFTS["other"], **options):
    options = {"greedy": False, "inputs": "logits", **options}
    target = TARGET.rows if options["inputs"] == "logits" else TARGET.probs
    return sdo.SpeculativeDecoder(draft, target, k=3, **options)


# ---- Randomness ----


def test_torch_manual_seed_rules_where_no_seed_is_given(sdo):
    decoder = sampler(sdo)
    torch.manual_seed(5)
    first, second = decoder.generate(PROMPT, 23), decoder.generate(PROMPT, 23)
    assert first != second
    torch.manual_seed(5)
    assert [decoder.generate(PROMPT, 23) for _ in range(2)] == [first, second]


@pytest.mark.parametrize("inputs", ["probs", "logits"])
def test_a_generator_rules_where_it_is_given(sdo, inputs):
    texts = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(8)
        before = torch.get_rng_state()
        decoder = sampler(sdo, inputs=inputs, generator=generator)
        texts.append([decoder.generate(PROMPT, 23) for _ in range(2)])
        assert torch.equal(torch.get_rng_state(), before)
    assert texts[0] == texts[1]
    assert texts[0][0] != texts[0][1]


def test_a_seed_touches_no_generator_and_may_be_any_int(sdo):
    before = torch.get_rng_state()
    for seed in (0, -1, 2**64 - 1, 2**70 + 3):
        assert sampler(sdo, seed=seed).generate(PROMPT, 9) == plain_sampling(sdo, 9, seed, {})
    assert torch.equal(torch.get_rng_state(), before)


def test_greedy_decoding_touches_no_generator(sdo):
    before = torch.get_rng_state()
    sampler(sdo, greedy=True).generate(PROMPT, 9)
    sampler(sdo, greedy=True, inputs="probs").generate(PROMPT, 9)
    assert torch.equal(torch.get_rng_state(), before)


def calls_of_verify(sdo, monkeypatch, **options):
    """(method, offset, draft tokens, whether draft rows came) of each round."""
    module = sys.modules[sdo.SpeculativeDecoder.__module__]
    calls, verify = [], module.verify

    def spy(target, draft, tokens, **arguments):
        calls.append((arguments["method"], arguments["offset"], tokens.shape[1], draft is not None))
        return verify(target, draft, tokens, **arguments)

    monkeypatch.setattr(module, "verify", spy)
    sampler(sdo, seed=3, **options).generate(PROMPT, 15)
    return calls


@pytest.mark.parametrize("rule", ["token", "block"])
def test_the_token_and_block_rules_use_every_offset_once(sdo, monkeypatch, rule):
    soft = soft_draft(OTHER, 1)
    calls = calls_of_verify(sdo, monkeypatch, draft=soft, method=rule)
    assert {(method, rows) for method, _, k, rows in calls if k} == {(rule, True)}
    used = [offset + i for _, offset, k, _ in calls for i in range(k + 1)]
    assert used == list(range(len(used)))


def test_soft_drafts_get_the_token_rule_and_others_the_coupled_one(sdo, monkeypatch):
    soft = calls_of_verify(sdo, monkeypatch, draft=soft_draft(OTHER, 1))
    assert {(method, rows) for method, _, k, rows in soft if k} == {("token", True)}
    monkeypatch.undo()
    hard = calls_of_verify(sdo, monkeypatch)
    assert {(method, rows) for method, _, _, rows in hard} == {("coupled", False)}
    assert [offset for _, offset, _, _ in hard] == sorted({offset for _, offset, _, _ in hard})
    assert hard[0][1] == len(PROMPT)


@pytest.mark.parametrize("rule", [None, "token", "block"])
def test_probabilities_are_verified_by_the_rule_asked_for(sdo, monkeypatch, rule):
    module = sys.modules[sdo.SpeculativeDecoder.__module__]
    asked, accept = set(), module.accept

    def spy(*rows, method):
        asked.add(method)
        return accept(*rows, method=method)

    monkeypatch.setattr(module, "accept", spy)
    logits = soft_draft(OTHER, 1)

    def draft_step(prefix, k):
        tokens, rows = logits(prefix, k)
        return tokens, rows.softmax(-1)

    decoder = sampler(sdo, draft=draft_step, inputs="probs", method=rule)
    assert len(decoder.generate(PROMPT, 15)) == len(PROMPT) + 15
    assert asked == {rule or "token"}


# ---- Refusals ----


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"k": -1}, ValueError, "k is -1, wanted 0 or more"),
        ({"k": 2.0}, TypeError, "k is 2.0, wanted an integer"),
        ({"k": True}, TypeError, "k is True, wanted an integer"),
        ({"method": "tree"}, ValueError, 'method is \'tree\', wanted "token", "block", "coupled"'),
        ({"inputs": "scores"}, ValueError, 'inputs is \'scores\', wanted "probs" or "logits"'),
        ({"seed": "7"}, TypeError, "seed is '7', wanted an integer"),
        ({"eos_token_id": [1, 2.5]}, TypeError, "eos_token_id is 2.5, wanted an integer"),
        ({"on_round": 3}, TypeError, "on_round is 3, wanted a callable"),
        ({"draft_rollback": 3}, TypeError, "draft_rollback is 3, wanted a callable or None"),
        ({"stop": "end"}, TypeError, "stop is a str, wanted a list of sequences of token ids"),
        ({"stop": [1, 2]}, TypeError, "stop[0] is 1, wanted a list of sequences of token ids"),
        ({"stop": [[1], []]}, ValueError, "stop[1] is empty, wanted at least one token"),
        ({"stop": [[1.5]]}, TypeError, "stop[0] is 1.5, wanted an integer"),
        ({"temperature": math.nan}, ValueError, "temperature is nan, wanted a finite number"),
        ({"top_p": "0.9"}, TypeError, "top_p is '0.9', wanted a real number"),
        ({"repetition_penalty": 0.0}, ValueError, "repetition_penalty is 0.0, wanted a positive"),
        ({"inputs": "probs", "top_p": 0.9}, ValueError, 'top_p is given with inputs="probs"'),
        ({"inputs": "probs", "seed": 7}, ValueError, 'seed is given with inputs="probs"'),
        ({"inputs": "probs", "method": "coupled"}, ValueError, "method is given with inputs"),
        ({"greedy": True, "temperature": 0.7}, ValueError, "temperature is 0.7 with greedy=True"),
        ({"seed": 7, "generator": torch.Generator()}, ValueError, "seed and generator are given"),
        ({"generator": 5}, TypeError, "generator is 5, wanted a torch.Generator or None"),
        ({"top_k": torch.tensor([5])}, TypeError, "top_k is a tensor, wanted a number"),
        ({"temperature": torch.tensor(0.7)}, TypeError, "temperature is a tensor, wanted a num"),
        ({"temperature": 1e-46}, ValueError, "temperature is 1e-46, which is 0 in float32"),
    ],
)
def test_a_parameter_without_meaning_is_refused_at_once(sdo, options, error, text):
    options = {"greedy": False, "inputs": "logits", **options}
    with pytest.raises(error) as raised:
        sdo.SpeculativeDecoder(DRAFTS["right"], TARGET.rows, **options)
    assert text in str(raised.value)


def test_callbacks_must_be_callable(sdo):
    with pytest.raises(TypeError, match="draft_step is None, wanted a callable"):
        sdo.SpeculativeDecoder(None, TARGET.rows)
    with pytest.raises(TypeError, match="target_step is 'model', wanted a callable"):
        sdo.SpeculativeDecoder(DRAFTS["right"], "model")


@pytest.mark.parametrize("call", ["generate", "stream"])
@pytest.mark.parametrize(
    ("prompt", "max_new", "error", "text"),
    [
        ([], 5, ValueError, "prompt_ids is empty, wanted at least one token"),
        (torch.empty(0, dtype=torch.int64), 5, ValueError, "prompt_ids is empty"),
        ("text", 5, TypeError, "prompt_ids is a str, wanted a list of int"),
        ([1, 2.5], 5, TypeError, "prompt_ids[1] is 2.5, wanted an integer"),
        (torch.tensor([[1, 2]]), 5, ValueError, "torch.int64 of shape [1, 2], wanted a list"),
        (torch.tensor([1.0]), 5, ValueError, "torch.float32 of shape [1], wanted a list"),
        (torch.tensor([1], dtype=torch.uint8), 5, ValueError, "prompt_ids is torch.uint8 of shape"),
        ([1, 2**63], 5, ValueError, f"prompt_ids[1] is {2**63}, wanted an id of 64 bits"),
        (PROMPT, -1, ValueError, "max_new is -1, wanted 0 or more"),
        (PROMPT, 1.5, TypeError, "max_new is 1.5, wanted an integer"),
    ],
)
def test_a_bad_call_is_refused_before_any_callback(sdo, call, prompt, max_new, error, text):
    def never(*_):
        raise AssertionError("called")

    with pytest.raises(error) as raised:
        getattr(sdo.SpeculativeDecoder(never, never), call)(prompt, max_new)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (([1, 2, 3, 4], None), ValueError, "draft_step returned 4 tokens, wanted at most k = 3"),
        ([1, 2, 3], TypeError, "draft_step returned a list of length 3, wanted (tokens, probs)"),
        (None, TypeError, "draft_step returned a NoneType, wanted (tokens, probs)"),
        (([1.5], None), TypeError, "draft_step: token 0 is 1.5, wanted an integer"),
        (([2**63], None), ValueError, f"draft_step: token 0 is {2**63}, wanted an id of 64 bits"),
        (
            (torch.ones(1, 2).long(), None),
            ValueError,
            "draft_step: its first result is torch.int64",
        ),
        ((7, None), TypeError, "draft_step: its first result is a int, wanted a list of int"),
        (([1, 2], torch.ones(3, VOCAB)), ValueError, "rows of shape [3, 12], wanted [2, V]"),
        (([1, 2], [[0.5] * VOCAB] * 2), TypeError, "draft_step returned rows as a list"),
    ],
)
def test_what_a_draft_may_not_return(sdo, returned, error, text):
    decoder = sampler(sdo, draft=lambda prefix, k: returned)
    with pytest.raises(error) as raised:
        decoder.generate(PROMPT, 9)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        (
            torch.zeros(3, VOCAB),
            ValueError,
            "target_step returned rows of shape [3, 12], wanted [4,",
        ),
        (torch.zeros(1, 4, VOCAB), ValueError, "target_step returned rows of shape [1, 4, 12]"),
        (None, TypeError, "target_step returned rows as a NoneType, wanted a tensor [4, V]"),
    ],
)
def test_what_a_target_may_not_return(sdo, rows, error, text):
    decoder = sdo.SpeculativeDecoder(DRAFTS["right"], lambda prefix, proposed: rows, k=3)
    with pytest.raises(error) as raised:
        decoder.generate(PROMPT, 9)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "options", [{}, {"inputs": "probs"}, {"greedy": True}, {"method": "token"}]
)
def test_a_row_that_holds_no_token_is_named_and_never_emitted(sdo, options):
    empty = 0.0 if options.get("inputs") == "probs" else -math.inf
    # The first maximum of a row of zeros is a token; of NaN there is none.
    empty = math.nan if options.get("greedy") else empty

    def target_step(prefix, proposed):
        rows = TARGET.probs if options.get("inputs") == "probs" else TARGET.rows
        rows = rows(prefix, proposed)
        if len(prefix) <= 8 < len(prefix) + len(rows):
            rows[8 - len(prefix)] = empty
        return rows

    decoder = sdo.SpeculativeDecoder(
        DRAFTS["other"], target_step, k=3, **{"greedy": False, "inputs": "logits", **options}
    )
    emitted = []
    with pytest.raises(ValueError, match="target_step: the row for position 8 holds no token"):
        for tokens, _ in decoder.stream(PROMPT, 23):
            emitted += tokens
    assert len(PROMPT) + len(emitted) <= 8
    assert all(0 <= token < VOCAB for token in emitted)


CALLBACKS = ["draft_step", "target_step", "on_round", "draft_rollback", "target_rollback"]


@pytest.mark.parametrize("name", CALLBACKS)
def test_an_exception_in_a_callback_passes_through_and_names_it(sdo, name):
    class Stop(Exception):
        pass

    def fails(*_):
        raise Stop

    callbacks = {"draft_step": DRAFTS["right"], "target_step": TARGET.rows, name: fails}
    with pytest.raises(Stop) as raised:
        sdo.SpeculativeDecoder(**callbacks, inputs="logits").generate(PROMPT, 5)
    assert f"raised by the callback {name}" in raised.value.__notes__


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_callback_that_stops_iterating_is_named(sdo, name):
    """Python would call it a RuntimeError of the stream, or take it for the stream's end."""

    def stops(*_):
        raise StopIteration

    callbacks = {"draft_step": DRAFTS["right"], "target_step": TARGET.rows, name: stops}
    decoder = sdo.SpeculativeDecoder(**callbacks, inputs="logits")
    with pytest.raises(RuntimeError, match=f"{name} raised StopIteration") as raised:
        decoder.generate(PROMPT, 5)
    assert isinstance(raised.value.__cause__, StopIteration)


def test_a_prompt_that_changes_during_a_stream_does_not_matter(sdo):
    prompt = torch.tensor(PROMPT)
    wanted = sampler(sdo, seed=3).generate(prompt, 12)
    stream = sampler(sdo, seed=3).stream(prompt, 12)
    prompt.zero_()
    assert [token for tokens, _ in stream for token in tokens] == wanted[len(PROMPT) :].tolist()


@pytest.mark.parametrize("rows", [torch.empty(0, 0), torch.empty(0, VOCAB), None])
@pytest.mark.parametrize("method", [None, "token"])
@pytest.mark.parametrize("inputs", ["probs", "logits"])
def test_a_draft_of_nothing_may_have_rows_of_nothing(sdo, rows, method, inputs):
    texts = []
    for draft_rows in (rows, None):
        options = {"seed": 3} if inputs == "logits" else {"generator": torch.Generator()}
        decoder = sampler(
            sdo,
            draft=lambda prefix, k, r=draft_rows: ([], r),
            method=method,
            inputs=inputs,
            **options,
        )
        texts.append(decoder.generate(PROMPT, 9))
    assert texts[0] == texts[1]
