# SPDX-License-Identifier: Apache-2.0
"""Draws against their analytic laws; each check has a sibling with a slightly wrong sampler.

Seeds are fixed and nothing is run twice: a check fails for good, or never.
"""

import cases
import fit
import pytest
import torch

DRAWS = 2**19
ROUNDS = 2**17
VOCAB = 24


def logits_of(seed=1):
    return torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed))


def counts(tokens, vocab=VOCAB):
    return torch.bincount(tokens, minlength=vocab)


def filtered_law(logits, **arguments):
    return cases.oracle_filter(logits[None], **arguments)[0].double().softmax(-1)


CHAINS = [
    {},
    {"temperature": 0.5},
    {"temperature": 1.5, "top_k": 9},
    {"top_p": 0.8},
    {"temperature": 1.2, "top_k": 15, "top_p": 0.9, "min_p": 0.1},
]


@pytest.mark.parametrize("arguments", CHAINS)
def test_draws_follow_the_filtered_softmax(sdo, arguments):
    logits = logits_of()
    tokens = sdo.sample(logits.expand(DRAWS, -1), seed=11, **arguments)
    assert fit.misfit(counts(tokens), filtered_law(logits, **arguments)) < 1


@pytest.mark.parametrize("arguments", CHAINS)
def test_the_fit_rejects_a_sampler_that_favours_a_token_by_three_percent(sdo, arguments):
    logits = logits_of()
    wrong = logits.clone()
    wrong[logits.argmax()] += 0.03 * arguments.get("temperature", 1.0)
    tokens = sdo.sample(wrong.expand(DRAWS, -1), seed=11, **arguments)
    assert fit.misfit(counts(tokens), filtered_law(logits, **arguments)) > 1


def test_draws_of_one_row_over_offsets_follow_the_law(sdo):
    logits = logits_of()
    tokens = sdo.sample(
        logits.expand(DRAWS, -1), seed=torch.full((DRAWS,), 5), offset=torch.arange(DRAWS)
    )
    assert fit.misfit(counts(tokens), logits.double().softmax(-1)) < 1


def test_neighbouring_rows_and_offsets_are_independent(sdo):
    """Pairs of tokens follow the product law, over streams and over offsets."""
    logits = torch.tensor([0.0, 0.5, 1.0, -0.5])
    p = logits.double().softmax(-1)
    streams = sdo.sample(logits.expand(DRAWS, -1), seed=3)
    offsets = sdo.sample(
        logits.expand(DRAWS, -1), seed=torch.full((DRAWS,), 9), offset=torch.arange(DRAWS)
    )
    for tokens in (streams, offsets):
        pairs = tokens[::2] * 4 + tokens[1::2]
        assert fit.misfit(counts(pairs, 16), torch.outer(p, p).flatten()) < 1


def test_the_fit_rejects_pairs_that_share_their_noise_once_in_thirty(sdo):
    logits = torch.tensor([0.0, 0.5, 1.0, -0.5])
    p = logits.double().softmax(-1)
    tokens = sdo.sample(logits.expand(DRAWS, -1), seed=3)
    first, second = tokens[::2], tokens[1::2].clone()
    second[::30] = first[::30]
    assert fit.misfit(counts(first * 4 + second, 16), torch.outer(p, p).flatten()) > 1


def test_rare_tokens_are_drawn_as_often_as_they_should(sdo):
    """32 expected of 2^19: a noise of 14 bits would never show them."""
    logits = torch.tensor([0.0, 0.0]).add(torch.tensor([0.0, -9.704]))
    hits = int(sdo.sample(logits.expand(DRAWS, -1), seed=1).sum())
    assert 8 < hits < 68  # Poisson(32) leaves it with probability 5e-7


# ---- verify ----


def rounds(sdo, draft_bias=0.0):
    """One draft token each, drawn from the draft logits; the verifier is told biased ones."""
    g = torch.Generator().manual_seed(4)
    target, draft = torch.randn(2, 3, generator=g), torch.randn(1, 3, generator=g)
    told = draft.clone()
    told[0, 0] += draft_bias
    tokens = sdo.sample(draft.expand(ROUNDS, 3), seed=21, offset=0)[:, None]
    accept_len, out = sdo.verify(
        target.expand(ROUNDS, 2, 3), told.expand(ROUNDS, 1, 3), tokens, seed=21, offset=0
    )
    return target, draft, accept_len, out


def test_verified_tokens_follow_the_target(sdo):
    target, draft, accept_len, out = rounds(sdo)
    p, q = target.double().softmax(-1), draft.double().softmax(-1)
    assert fit.misfit(counts(out[:, 0], 3), p[0]) < 1
    bonus = out[accept_len == 1, 1]
    assert fit.misfit(counts(bonus, 3), p[1]) < 1
    overlap = torch.minimum(p[0], q[0]).sum()
    law = torch.stack([1 - overlap, overlap])
    assert fit.misfit(counts(accept_len, 2), law) < 1


def test_the_eager_form_follows_the_target(sdo):
    """What the benchmarks compare with does the same work."""
    target, draft, *_ = rounds(sdo)
    g = torch.Generator().manual_seed(2)
    q = draft.softmax(-1).expand(ROUNDS, -1)
    accept_len, out = sdo.reference.eager_verify(
        target.expand(ROUNDS, 2, 3),
        draft.expand(ROUNDS, 1, 3),
        q.multinomial(1, generator=g),
        generator=g,
    )
    p = target.double().softmax(-1)
    assert fit.misfit(counts(out[:, 0], 3), p[0]) < 1
    assert fit.misfit(counts(out[accept_len == 1, 1], 3), p[1]) < 1


def test_the_fit_rejects_a_draft_scored_with_a_wrong_law(sdo):
    target, *_, out = rounds(sdo, draft_bias=0.1)
    assert fit.misfit(counts(out[:, 0], 3), target[0].double().softmax(-1)) > 1


def test_coupled_tokens_follow_the_target(sdo):
    logits = logits_of()
    tokens = sdo.sample(logits.expand(DRAWS, -1), seed=1, offset=4)[:, None]
    _, out = sdo.verify(
        logits.expand(DRAWS, 2, -1), None, tokens, seed=2, offset=9, method="coupled"
    )
    assert fit.misfit(counts(out[:, 0]), logits.double().softmax(-1)) < 1
