# SPDX-License-Identifier: Apache-2.0
"""Draws that should know nothing of each other: of neighbouring rows, offsets and seeds, and of one
round's draft, accept test, residual and bonus. The law of pairs is the product of their laws.

A right package fails one check with probability 1e-6 (fit.ALPHA), and one of five lags with 5e-6.
Full size: `make stats`.
"""

import fit
import pytest
import torch
from figures import Figure, record

FULL, SHORT = 2**22, 2**17
LOGITS = torch.tensor([0.0, 0.5, 1.0, -0.5])
LAGS = [1, 2, 4, 16, 64]


def drawn_along(sdo, axis, draws, logits=LOGITS):
    """Tokens of one row whose neighbours differ in one thing only."""
    rows, steps = logits.expand(draws, -1), torch.arange(draws)
    if axis == "rows":
        return sdo.sample(rows, seed=3)
    if axis == "offsets":
        return sdo.sample(rows, seed=torch.full((draws,), 9), offset=steps)
    return sdo.sample(rows, seed=steps)


def pairs_at(tokens, lag):
    """Tokens a lag apart as one number; no token is in two pairs."""
    blocks = tokens[: len(tokens) // (2 * lag) * (2 * lag)].view(-1, 2, lag)
    return (blocks[:, 0] * len(LOGITS) + blocks[:, 1]).flatten()


def figure_of(counts, law, name, test):
    """Chi-square, for a degree of freedom."""
    statistic, freedom = fit.chi_square(counts, law)
    measured, limit = statistic / freedom, fit.chi_square_limit(freedom) / freedom - 1
    floor = 2 / (torch.pi * freedom) ** 0.5
    trials, apart = int(counts.sum()), abs(measured - 1)
    return Figure(name, trials, measured, 1.0, apart, floor, limit, None, test)


def serial(tokens, axis):
    """The figure of the lag whose pairs fit their law worst."""
    p = LOGITS.double().softmax(-1)
    law = torch.outer(p, p).flatten()
    counts = {lag: torch.bincount(pairs_at(tokens, lag), minlength=16) for lag in LAGS}
    worst = max(LAGS, key=lambda lag: fit.misfit(counts[lag], law))
    name = f"pairs of {axis}, lags 1 to 64, the worst: chi-square, a degree of freedom"
    return figure_of(counts[worst], law, name, "serial")


@pytest.mark.stats
@pytest.mark.parametrize("axis", ["rows", "offsets", "seeds"])
def test_serial_pairs_are_independent(sdo, axis):
    tokens = drawn_along(sdo, axis, FULL)
    assert record(serial(tokens, axis))


@pytest.mark.parametrize("axis", ["rows", "offsets", "seeds"])
def test_pairs_of_fewer_draws_are_independent(sdo, axis):
    tokens = drawn_along(sdo, axis, SHORT)
    assert serial(tokens, axis).misfit < 1


@pytest.mark.parametrize("axis", ["rows", "offsets", "seeds"])
@pytest.mark.parametrize("lag", [1, 64])
def test_pairs_of_which_one_in_twenty_shares_its_noise_are_not(sdo, axis, lag):
    tokens = drawn_along(sdo, axis, SHORT)
    blocks = tokens.view(-1, 2, lag)
    blocks[::20, 1] = blocks[::20, 0]
    assert serial(tokens, axis).misfit > 1


@pytest.mark.parametrize("axis", ["rows", "offsets", "seeds"])
def test_draws_along_each_axis_follow_the_law(sdo, axis):
    logits = torch.randn(24, generator=torch.Generator().manual_seed(1))
    tokens = drawn_along(sdo, axis, SHORT, logits)
    assert fit.misfit(torch.bincount(tokens, minlength=24), logits.double().softmax(-1)) < 1


# ---- Purposes: the draws of one round, at one seed, offset and row ----

VOCAB = 3
TARGET = torch.tensor([[0.9, -0.4, 0.1], [0.2, 0.6, -0.7]])
DRAFT = torch.tensor([[-0.1, 0.7, 0.3]])


def law_of_rounds():
    """Of (draft token, whether it stands, the token after it), in one number."""
    (p, bonus), q = TARGET.double().softmax(-1), DRAFT[0].double().softmax(-1)
    stands = torch.minimum(p, q)
    residual = (p - q).clamp(min=0)
    rejected = torch.outer(q - stands, residual / residual.sum())
    return torch.stack([rejected, torch.outer(stands, bonus)], 1).flatten()


def rounds(sdo, trials, words=None):
    """Counts of the same. Every round has its row stream; `words` in place of the op's own."""
    tokens = sdo.sample(DRAFT.expand(trials, -1), seed=21, offset=6)[:, None]
    logits = TARGET.expand(trials, -1, -1), DRAFT.expand(trials, 1, -1)
    if words is None:
        stands, out = sdo.verify(*logits, tokens, seed=21, offset=6)
    else:
        stands, out = sdo._verify_with_words(*logits, tokens, words)
    last = out.gather(1, stands[:, None])[:, 0]
    outcome = (tokens[:, 0] * 2 + stands) * VOCAB + last
    return torch.bincount(outcome, minlength=2 * VOCAB**2)


def purposes(counts):
    name = "draft, accept, residual and bonus together: chi-square, a degree of freedom"
    return figure_of(counts, law_of_rounds(), name, "purposes")


@pytest.mark.stats
def test_the_purposes_of_a_round_are_independent(sdo):
    assert record(purposes(rounds(sdo, FULL)))


def test_the_purposes_of_fewer_rounds_are_independent(sdo):
    assert purposes(rounds(sdo, SHORT)).misfit < 1


def words(trials, shared_once_in=None):
    """Random words of an accept test and of the draw that follows it."""
    g = torch.Generator().manual_seed(5)
    made = torch.randint(-(2**63), 2**63 - 1, (trials, 2), generator=g)
    if shared_once_in:
        made[::shared_once_in, 1] = made[::shared_once_in, 0]
    return made


def test_rounds_whose_last_draw_shares_the_word_of_the_accept_test_now_and_then_are_not(sdo):
    assert purposes(rounds(sdo, SHORT, words(SHORT))).misfit < 1
    assert purposes(rounds(sdo, SHORT, words(SHORT, shared_once_in=10))).misfit > 1
