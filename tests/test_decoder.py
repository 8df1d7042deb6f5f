# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder on toy models: its text is the target's, and ends where it should."""

import pytest
import torch
from toy_models import DRAFTS, OTHER, PROMPT, TARGET, VOCAB, proposing, soft_draft

LENGTHS = [0, 1, 2, 5, 6, 7, 23]
CHAINS = {
    "plain": {},
    "filtered": {"temperature": 0.8, "top_k": 9, "top_p": 0.9, "min_p": 0.02},
    "penalised": {"temperature": 1.1, "top_p": 0.95, "repetition_penalty": 1.4},
}


def plain_greedy(count, penalty=1.0, sdo=None):
    text = list(PROMPT)
    for _ in range(count):
        row = TARGET.row(text)
        if penalty != 1.0:
            row = sdo.filter_logits(row, repetition_penalty=penalty, prev_tokens=torch.tensor(text))
        text.append(int(row.argmax()))
    return text


def plain_sampling(sdo, count, seed, chain):
    text = list(PROMPT)
    for _ in range(count):
        token = sdo.sample(
            TARGET.row(text), seed=seed, offset=len(text), prev_tokens=torch.tensor(text), **chain
        )
        text.append(int(token))
    return text


# ---- The text is the target's ----


@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("inputs", ["probs", "logits"])
def test_greedy_output_is_plain_greedy_for_any_draft_and_k(sdo, inputs, draft, k):
    rows = TARGET.probs if inputs == "probs" else TARGET.rows
    target = rows_within_vocabulary(rows) if draft == "beyond" else rows
    decoder = sdo.SpeculativeDecoder(DRAFTS[draft], target, k=k, inputs=inputs)
    for max_new in LENGTHS:
        assert decoder.generate(PROMPT, max_new) == plain_greedy(max_new)


def rows_within_vocabulary(rows):
    """A target that clamps the ids it reads, as an embedding would have to."""
    return lambda prefix, proposed: rows(prefix, [min(t, VOCAB - 1) for t in proposed])


@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("draft", ["right", "other", "wrong", "ragged", "none", "padded"])
def test_greedy_with_a_penalty_is_plain_greedy_on_penalised_rows(sdo, draft, k):
    decoder = sdo.SpeculativeDecoder(
        DRAFTS[draft], TARGET.rows, k=k, inputs="logits", repetition_penalty=1.7
    )
    expected = plain_greedy(20, 1.7, sdo)
    assert expected != plain_greedy(20)
    assert decoder.generate(PROMPT, 20) == expected


@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("chain", CHAINS)
def test_coupled_output_is_plain_sampling_for_any_draft_and_k(sdo, chain, draft, k):
    target = rows_within_vocabulary(TARGET.rows) if draft == "beyond" else TARGET.rows
    for seed in range(2):
        decoder = sdo.SpeculativeDecoder(
            DRAFTS[draft],
            target,
            k=k,
            greedy=False,
            inputs="logits",
            seed=seed,
            **CHAINS[chain],
        )
        assert decoder.generate(PROMPT, 23) == plain_sampling(sdo, 23, seed, CHAINS[chain])


def test_a_coupled_draft_that_samples_with_the_same_noise_is_always_accepted(sdo):
    def draft_step(prefix, k):
        text = list(prefix)
        for _ in range(k):
            text.append(int(sdo.sample(TARGET.row(text), 0.7, seed=9, offset=len(text))))
        return text[len(prefix) :], None

    decoder = sdo.SpeculativeDecoder(
        draft_step, TARGET.rows, k=4, greedy=False, inputs="logits", seed=9, temperature=0.7
    )
    decoder.generate(PROMPT, 20)
    assert decoder.stats.accepted == decoder.stats.drafted == 16


def test_coupled_verification_does_not_read_the_rows_of_a_soft_draft(sdo):
    decoder = sdo.SpeculativeDecoder(
        soft_draft(OTHER, 1),
        TARGET.rows,
        greedy=False,
        inputs="logits",
        method="coupled",
        seed=4,
    )
    assert decoder.generate(PROMPT, 23) == plain_sampling(sdo, 23, 4, {})


def test_temperature_zero_samples_the_greedy_text(sdo):
    for method in ("token", "coupled"):
        decoder = sdo.SpeculativeDecoder(
            DRAFTS["other"],
            TARGET.rows,
            greedy=False,
            inputs="logits",
            temperature=0.0,
            method=method,
        )
        assert decoder.generate(PROMPT, 23) == plain_greedy(23)


# ---- Where the text ends ----


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 8])
def test_max_new_is_exact(sdo, k):
    decoder = sdo.SpeculativeDecoder(DRAFTS["right"], TARGET.rows, k=k, inputs="logits")
    for max_new in range(14):
        assert len(decoder.generate(PROMPT, max_new)) == len(PROMPT) + max_new


def test_the_draft_is_never_asked_for_a_token_that_cannot_be_used(sdo):
    asked = []

    def draft_step(prefix, k):
        asked.append((len(prefix) - len(PROMPT), k))
        return DRAFTS["right"](prefix, k)

    sdo.SpeculativeDecoder(draft_step, TARGET.rows, k=4, inputs="logits").generate(PROMPT, 8)
    assert asked == [(0, 4), (5, 2)]
    asked.clear()
    sdo.SpeculativeDecoder(draft_step, TARGET.rows, k=4, inputs="logits").generate(PROMPT, 1)
    assert asked == []


def counting_target(prefix, proposed):
    """The next token is one more than the last, mod VOCAB."""
    text, start = [*prefix, *proposed], len(prefix)
    last = torch.tensor([int(text[start + i - 1]) for i in range(len(proposed) + 1)])
    return torch.nn.functional.one_hot((last + 1) % VOCAB, VOCAB).float()


COUNTING = proposing(lambda text: (text[-1] + 1) % VOCAB)


@pytest.mark.parametrize("eos", [4, 5, 6, 7, 8, 9, [9, 7]])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_the_text_is_cut_at_an_end_of_sequence_token_wherever_it_stands(sdo, k, eos):
    decoder = sdo.SpeculativeDecoder(COUNTING, counting_target, k=k, eos_token_id=eos)
    last = min(eos) if isinstance(eos, list) else eos
    assert decoder.generate([3], 50) == list(range(3, last + 1))
    assert decoder.stats.emitted == last - 3
    assert sum(n * rounds for n, rounds in decoder.stats.accepted_lengths.items()) == (
        decoder.stats.accepted
    )


def test_an_end_of_sequence_token_in_the_prompt_ends_nothing(sdo):
    decoder = sdo.SpeculativeDecoder(COUNTING, counting_target, eos_token_id=[3, 8])
    assert decoder.generate([3, 4], 50) == [3, 4, 5, 6, 7, 8]


def test_the_end_comes_before_the_cap(sdo):
    decoder = sdo.SpeculativeDecoder(COUNTING, counting_target, k=4, eos_token_id=5)
    assert decoder.generate([3], 2) == [3, 4, 5]
    assert decoder.generate([3], 1) == [3, 4]


# ---- What callbacks see, and what comes back ----


def test_a_list_comes_back_as_a_new_list_of_ints(sdo):
    prompt = list(PROMPT)
    out = sdo.SpeculativeDecoder(DRAFTS["right"], TARGET.rows, inputs="logits").generate(prompt, 5)
    assert prompt == PROMPT
    assert [type(token) for token in out] == [int] * 8


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_tensor_comes_back_as_a_tensor_of_its_dtype(sdo, dtype):
    prompt = torch.tensor(PROMPT, dtype=dtype)
    seen = []

    def draft_step(prefix, k):
        seen.append(prefix)
        return torch.tensor(DRAFTS["other"](prefix, k)[0], dtype=dtype), None

    def target_step(prefix, proposed):
        seen.extend([prefix, proposed])
        return TARGET.rows(prefix, proposed)

    out = sdo.SpeculativeDecoder(draft_step, target_step, inputs="logits").generate(prompt, 9)
    assert out.tolist() == plain_greedy(9)
    assert all(ids.dtype == dtype and ids.dim() == 1 for ids in [out, *seen])
    assert prompt.tolist() == PROMPT


def test_callbacks_may_write_to_what_they_are_given(sdo):
    def draft_step(prefix, k):
        tokens, _ = DRAFTS["other"](prefix, k)
        prefix += tokens
        return tokens, None

    def target_step(prefix, proposed):
        rows = TARGET.rows(prefix, proposed)
        prefix.clear()
        proposed.clear()
        return rows

    decoder = sdo.SpeculativeDecoder(draft_step, target_step, inputs="logits")
    assert decoder.generate(PROMPT, 9) == plain_greedy(9)


@pytest.mark.parametrize("draft", ["right", "other", "wrong", "none"])
def test_a_cache_cut_to_the_prefix_without_its_last_token_is_right(sdo, draft):
    """The rollback of the docstring, whether all, some or none were accepted."""
    cached = []

    def target_step(prefix, proposed):
        del cached[len(prefix) - 1 :]
        assert cached == (prefix[:-1] if cached else [])
        cached[:] = [*prefix, *proposed]
        return TARGET.rows(prefix, proposed)

    decoder = sdo.SpeculativeDecoder(DRAFTS[draft], target_step, k=3, inputs="logits")
    assert decoder.generate(PROMPT, 20) == plain_greedy(20)


def test_a_stream_yields_what_generate_returns_round_by_round(sdo):
    decoder = sdo.SpeculativeDecoder(DRAFTS["other"], TARGET.rows, k=3, inputs="logits")
    rounds = list(decoder.stream(PROMPT, 23))
    assert len(rounds) == decoder.stats.rounds
    assert PROMPT + [token for tokens, _ in rounds for token in tokens] == plain_greedy(23)
    assert all(1 <= len(tokens) <= 4 for tokens, _ in rounds)
    assert [reason for _, reason in rounds] == [None] * (len(rounds) - 1) + ["length"]


def test_a_stream_closed_early_leaves_nothing_broken(sdo):
    decoder = sdo.SpeculativeDecoder(
        DRAFTS["other"], TARGET.rows, greedy=False, inputs="logits", seed=1
    )
    expected = plain_sampling(sdo, 23, 1, {})
    stream = decoder.stream(PROMPT, 23)
    first, _ = next(stream)
    stream.close()
    assert PROMPT + first == expected[: len(PROMPT) + len(first)]
    assert decoder.stats.emitted == len(first)
    assert decoder.generate(PROMPT, 23) == expected
    open_stream, tokens = decoder.stream(PROMPT, 23), []
    tokens += next(open_stream).tokens
    assert decoder.generate(PROMPT, 23) == expected
    assert PROMPT + tokens + [t for more, _ in open_stream for t in more] == expected


def test_stats_count_what_happened(sdo):
    heard = []
    decoder = sdo.SpeculativeDecoder(
        DRAFTS["other"],
        TARGET.rows,
        k=3,
        inputs="logits",
        on_round=lambda *event: heard.append(event),
    )
    assert decoder.stats.tokens_per_target_call == 0
    for _ in range(2):
        heard.clear()
        out = decoder.generate(PROMPT, 23)
        stats = decoder.stats
        assert stats.rounds == stats.target_calls == len(heard)
        assert stats.emitted == 23
        assert [t for _, _, emitted in heard for t in emitted] == out[len(PROMPT) :]
        assert stats.drafted == sum(len(drafted) for drafted, _, _ in heard)
        assert stats.accepted == sum(accepted for _, accepted, _ in heard)
        assert stats.emitted == stats.accepted + stats.rounds
        assert all(emitted[:n] == drafted[:n] for drafted, n, emitted in heard)
        for n in range(4):
            assert stats.accepted_lengths[n] == sum(n == event[1] for event in heard)
        assert stats.tokens_per_target_call == 23 / stats.rounds
        assert stats.target_seconds > 0
        assert stats.draft_seconds > 0
        assert stats.verify_seconds > 0
