# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder: what goes wrong in decoding loops. Ends inside a round, caches after
rejections, errors and closed streams, penalties over draft tokens, and drafts of any length."""

import pytest
import torch
from test_decoder import CHAINS, COUNTING, counting_target, plain_greedy, plain_sampling
from toy_models import DRAFTS, OTHER, PROMPT, TARGET, VOCAB, ToyModel, proposing, soft_draft

STOP = 9


def following(text):
    """(draft_step, target_step) of a target that says just this text, and a draft that knows."""

    def target_step(prefix, proposed):
        ids = [text[min(len(prefix) + i, len(text) - 1)] for i in range(len(proposed) + 1)]
        return torch.nn.functional.one_hot(torch.tensor(ids), 64).float()

    return (lambda prefix, k: (text[len(prefix) : len(prefix) + k], None)), target_step


def decode(sdo, text, prompt_length, max_new, k=4, **options):
    decoder = sdo.SpeculativeDecoder(*following(text), k=k, **options)
    return decoder.generate(text[:prompt_length], max_new)[prompt_length:], decoder.stats


# ---- Where the text ends ----


@pytest.mark.parametrize("k", range(6))
def test_eos_inside_the_accepted_run_cuts_there(sdo, k):
    new, stats = decode(sdo, [1, 10, 11, 2, 20, 21, 22], 1, 6, k, eos_token_id=2)
    assert new == [10, 11, 2]
    assert stats.finish_reason == "eos"


@pytest.mark.parametrize("k", range(7))
@pytest.mark.parametrize("end", [{"eos_token_id": STOP}, {"stop": [[STOP]]}])
def test_a_stop_inside_the_run_wins_over_the_cap(sdo, end, k):
    new, stats = decode(sdo, [1, 10, 11, STOP, 20, 21, 22], 1, 5, k, **end)
    assert new == [10, 11, STOP]
    assert stats.finish_reason in ("eos", "stop")
    new, stats = decode(sdo, [1, 10, 11, STOP, 20, 21, 22], 1, 3, k, **end)
    assert new == [10, 11, STOP]
    assert stats.finish_reason in ("eos", "stop")
    new, stats = decode(sdo, [1, 10, 11, STOP, 20, 21, 22], 1, 2, k, **end)
    assert new == [10, 11]
    assert stats.finish_reason == "length"


@pytest.mark.parametrize("k", range(6))
@pytest.mark.parametrize("max_new", range(12))
def test_max_new_is_exact_for_no_multiple_of_a_round(sdo, k, max_new):
    new, stats = decode(sdo, list(range(1, 40)), 3, max_new, k)
    assert new == list(range(4, 4 + max_new))
    assert stats.finish_reason == "length"


@pytest.mark.parametrize("k", range(7))
def test_a_stop_sequence_completed_inside_a_block_leaks_nothing(sdo, k):
    text = [1, 5, 6, 5, 6, 7, 8, 30, 31, 32]
    assert decode(sdo, text, 1, 9, k, stop=[[5, 6, 7]])[0] == [5, 6, 5, 6, 7]
    assert decode(sdo, text, 1, 9, k, stop=[[7, 8, 30], [6, 7]])[0] == [5, 6, 5, 6, 7]
    assert decode(sdo, text, 1, 9, k, stop=[(40,), torch.tensor([8, 30])])[0] == text[1:8]


@pytest.mark.parametrize("k", range(5))
def test_a_stop_sequence_that_began_in_the_prompt_ends_nothing(sdo, k):
    text = [1, 5, 6, 7, 5, 6, 7, 8]
    assert decode(sdo, text, 3, 5, k, stop=[[5, 6, 7]])[0] == [7, 5, 6, 7]


def test_a_stream_says_why_the_text_ends(sdo):
    for options, reason in (
        ({}, "length"),
        ({"eos_token_id": 6}, "eos"),
        ({"stop": [[6]]}, "stop"),
    ):
        decoder = sdo.SpeculativeDecoder(COUNTING, counting_target, k=2, **options)
        reasons = [reason for _, reason in decoder.stream([3], 8)]
        assert reasons == [None] * (len(reasons) - 1) + [reason]
        assert decoder.stats.finish_reason == reason
    assert list(decoder.stream([3], 0)) == []
    assert decoder.stats.finish_reason == "length"


# ---- Caches ----


class Cached:
    """A model behind a cache of its own, which only a rollback shortens: it reads what follows what
    it holds, and fails if that is not the text."""

    def __init__(self, model, next_token=None):
        self.model, self.next_token, self.held = model, next_token, []

    def rollback(self, length):
        del self.held[length:]

    def _read(self, text, fewest):
        assert self.held == text[: len(self.held)], "the cache holds another text"
        assert len(text) - len(self.held) >= fewest, "the cache lacks nothing to read"
        self.held = list(text)

    def target_step(self, prefix, proposed):
        self._read([*prefix, *proposed], len(proposed) + 1)
        return self.model.rows(prefix, proposed)

    def draft_step(self, prefix, k):
        text = list(prefix)
        for _ in range(k):
            self._read(text, 1)
            text.append(self.next_token(text))
        return text[len(prefix) :], None


def cached_pair(next_token):
    return Cached(OTHER, next_token), Cached(TARGET)


def right(text):
    return int(TARGET.row(text).argmax())


def with_hooks(sdo, draft, target, **options):
    return sdo.SpeculativeDecoder(
        draft.draft_step,
        target.target_step,
        inputs="logits",
        draft_rollback=draft.rollback,
        target_rollback=target.rollback,
        **options,
    )


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("share", [0, 2, 3, 10**9])
def test_rollback_leaves_both_caches_right_whether_all_some_or_none_were_accepted(sdo, share, k):
    def next_token(text):
        return right(text) if len(text) % share else (right(text) + 1) % VOCAB

    draft, target = cached_pair(next_token if share else lambda text: 0)
    decoder = with_hooks(sdo, draft, target, k=k)
    assert decoder.generate(PROMPT, 30) == plain_greedy(30)


def test_after_a_full_accept_the_draft_lacks_just_its_own_last_token(sdo):
    draft, target = cached_pair(right)
    lengths = []
    for tokens, _ in with_hooks(sdo, draft, target, k=3).stream(PROMPT, 20):
        lengths.append((len(tokens), len(target.held), len(draft.held)))
    text = len(PROMPT)
    for emitted, held_by_target, held_by_draft in lengths[:-1]:
        text += emitted
        assert (emitted, held_by_target, held_by_draft) == (4, text - 1, text - 2)


@pytest.mark.parametrize("rounds", range(5))
def test_a_stream_closed_early_leaves_caches_that_can_go_on(sdo, rounds):
    draft, target = cached_pair(lambda text: right(text) if len(text) % 3 else 0)
    decoder = with_hooks(sdo, draft, target, k=3)
    stream, text = decoder.stream(PROMPT, 30), list(PROMPT)
    for _ in range(rounds):
        text += next(stream).tokens
    stream.close()
    assert target.held == text[:-1] or not rounds
    assert draft.held == text[: len(draft.held)]
    rest = 30 - (len(text) - len(PROMPT))
    assert decoder.generate(text, rest) == plain_greedy(30)


@pytest.mark.parametrize("name", ["draft_step", "target_step", "on_round"])
@pytest.mark.parametrize("call", range(1, 4))
def test_a_round_that_fails_leaves_caches_that_can_go_on(sdo, name, call):
    class Lost(Exception):
        pass

    draft, target = cached_pair(lambda text: right(text) if len(text) % 3 else 0)
    decoder = with_hooks(sdo, draft, target, k=3, on_round=lambda *_: None)
    whole, calls = getattr(decoder, name), []

    def fails_after_its_work(*arguments):
        result = whole(*arguments)
        calls.append(1)
        if len(calls) == call:
            raise Lost
        return result

    setattr(decoder, name, fails_after_its_work)
    text = list(PROMPT)
    with pytest.raises(Lost):
        for tokens, _ in decoder.stream(PROMPT, 30):
            text += tokens
    if name == "on_round":  # its round was committed, though nobody was given it
        text = plain_greedy(30)[: len(target.held) + 1]
    assert target.held in (text[:-1], [])  # nothing yet, if the first draft failed
    assert draft.held == text[: len(draft.held)]
    assert decoder.generate(text, 30 - len(text) + len(PROMPT)) == plain_greedy(30)


# ---- Penalties, and drafts of any length ----


@pytest.mark.parametrize("method", ["token", "coupled"])
def test_a_penalty_counts_each_accepted_token_in_both_models(sdo, method):
    """Of the rows at each position those seen before it are penalised, draft tokens included: the
    law of a round is that of single steps."""
    chain = {"repetition_penalty": 3.0, "temperature": 1e-6}

    def draft_step(prefix, k):
        text = list(prefix)
        for _ in range(k):
            row = OTHER.row(text) + TARGET.row(text)
            text.append(int(sdo.sample(row, prev_tokens=torch.tensor(text), seed=1, **chain)))
        tokens = text[len(prefix) :]
        return tokens, OTHER.rows(prefix, tokens[:-1]) + TARGET.rows(prefix, tokens[:-1])

    decoder = sdo.SpeculativeDecoder(
        draft_step, TARGET.rows, k=4, greedy=False, inputs="logits", method=method, seed=2, **chain
    )
    assert decoder.generate(PROMPT, 30) == plain_greedy(30, 3.0, sdo)
    assert 0 < decoder.stats.accepted < decoder.stats.drafted


@pytest.mark.parametrize("max_new", [0, 1, 2, 5])
@pytest.mark.parametrize("k", [0, 1, 50])
def test_k_of_none_and_k_beyond_the_text_work(sdo, k, max_new):
    decoder = sdo.SpeculativeDecoder(DRAFTS["other"], TARGET.rows, k=k, inputs="logits")
    assert decoder.generate(PROMPT, max_new) == plain_greedy(max_new)


def test_an_empty_prompt_is_refused_by_name(sdo):
    decoder = sdo.SpeculativeDecoder(DRAFTS["right"], TARGET.rows, inputs="logits")
    with pytest.raises(ValueError, match="prompt_ids is empty, wanted at least one token"):
        decoder.generate([])


@pytest.mark.parametrize("size", range(5))
def test_a_draft_may_return_fewer_than_k(sdo, size):
    draft = proposing(right, lambda prefix, k: min(size, k))
    decoder = sdo.SpeculativeDecoder(draft, TARGET.rows, k=4, inputs="logits")
    assert decoder.generate(PROMPT, 23) == plain_greedy(23)
    assert max(decoder.stats.drafted_lengths) == min(size, 4)


# ---- Adaptation ----


@pytest.mark.parametrize("k", [0, 1, 8])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("chain", [None, *CHAINS])
def test_adaptation_never_changes_greedy_or_coupled_output(sdo, chain, draft, k):
    def target_step(prefix, proposed):
        return TARGET.rows(prefix, [min(t, VOCAB - 1) for t in proposed])

    options = {"greedy": True} if chain is None else {"greedy": False, "seed": 5, **CHAINS[chain]}
    decoder = sdo.SpeculativeDecoder(
        DRAFTS[draft], target_step, k=k, adaptive_k=True, inputs="logits", **options
    )
    expected = plain_greedy(40) if chain is None else plain_sampling(sdo, 40, 5, CHAINS[chain])
    assert decoder.generate(PROMPT, 40) == expected


def test_stats_count_acceptance_by_position_and_lengths(sdo):
    draft = proposing(lambda text: right(text) if len(text) % 5 else 0)
    heard = []
    decoder = sdo.SpeculativeDecoder(
        draft, TARGET.rows, k=3, inputs="logits", on_round=lambda *event: heard.append(event)
    )
    decoder.generate(PROMPT, 40)
    stats = decoder.stats
    for i, share in enumerate(stats.acceptance_by_position):
        tried = [n for drafted, n, _ in heard if len(drafted) > i]
        assert share == sum(n > i for n in tried) / len(tried)
    assert len(stats.acceptance_by_position) == 3
    assert stats.tokens_per_target_call == 40 / len(heard)
    assert stats.drafted_lengths.total() == stats.accepted_lengths.total() == stats.rounds


def test_a_seed_of_the_token_rule_gives_the_same_text_again(sdo):
    texts = []
    for _ in range(2):
        decoder = sdo.SpeculativeDecoder(
            soft_draft(ToyModel(3), 1), TARGET.rows, greedy=False, inputs="logits", seed=6
        )
        texts.append(decoder.generate(PROMPT, 30))
    assert texts[0] == texts[1]
