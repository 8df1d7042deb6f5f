# SPDX-License-Identifier: Apache-2.0
"""Draws against the law of transformers' processors: short here, at full size by `make stats`,
which also prints the figures. A right sampler fails one check with probability 1e-6 (fit.ALPHA);
each check has a sibling that is a little wrong, and fails."""

from types import SimpleNamespace

import cases
import fit
import numpy as np
import pytest
import sample_figures as figures
import torch
from figures import record
from test_transformers import ROWS

FULL, SHORT = 2**22, 2**17
SCORED = 10**9  # tokens that rare ones are drawn from; SHORT_SCORED in `make test`
SHORT_SCORED = 10**8
VOCABS = [1000, 50257]
CHECKS = [figures.total_variation, figures.chi_square, figures.masked]


@pytest.mark.stats
@pytest.mark.parametrize("vocab", VOCABS)
@pytest.mark.parametrize("setting", figures.SETTINGS)
def test_draws_follow_the_law_of_the_processors(sdo, setting, vocab):
    drawn = figures.draw(sdo, setting, vocab, FULL)
    right = [record(check(drawn)) for check in CHECKS]
    assert all(right)


@pytest.mark.parametrize("setting", figures.SETTINGS)
def test_fewer_draws_follow_it_within_a_wider_floor(sdo, setting):
    drawn = figures.draw(sdo, setting, 1000, SHORT)
    assert all(check(drawn).misfit < 1 for check in CHECKS)


@pytest.mark.parametrize("setting", figures.SETTINGS)
def test_draws_of_a_sampler_that_is_a_tenth_too_warm_do_not(sdo, setting):
    warm = 1.1 * figures.SETTINGS[setting].get("temperature", 1.0)
    drawn = figures.draw(sdo, setting, 1000, SHORT, temperature=warm)
    assert figures.total_variation(drawn).misfit > 1
    assert figures.chi_square(drawn).misfit > 1


WIDER = [("top_k", {"top_k": 51}), ("top_p", {"top_p": 0.905}), ("combined", {"min_p": 0.015})]


@pytest.mark.parametrize("setting, wrong", WIDER)
def test_a_filter_a_little_too_wide_draws_what_is_masked(sdo, setting, wrong):
    drawn = figures.draw(sdo, setting, 1000, SHORT, **wrong)
    assert figures.masked(drawn).misfit > 1
    assert figures.chi_square(drawn).misfit > 1


@pytest.mark.stats
def test_kept_sets_are_those_of_the_processors(sdo):
    """Shorter, and with siblings, in test_transformers.py."""
    real = torch.from_numpy(np.load(ROWS)["rows"].view(np.int16)).view(torch.bfloat16)
    assert record(figures.kept_sets(sdo, real, f"SmolLM2, V = {real.shape[1]}"))
    assert record(figures.kept_sets(sdo, cases.rows("normal", 128, 50257), "V = 50257"))


def rare_tokens(sdo, scored, vocab):
    logits, _ = figures.row_with_rare_tokens(vocab)
    return list(figures.rare_tokens(figures.counted(sdo, logits, scored // vocab), vocab))


@pytest.mark.stats
@pytest.mark.parametrize("vocab", [64, 50257])
def test_rare_tokens_are_drawn_as_often_as_they_should(sdo, vocab):
    right = [record(figure) for figure in rare_tokens(sdo, SCORED, vocab)]
    assert all(right)


@pytest.mark.parametrize("vocab", [64, 50257])
def test_rare_tokens_of_fewer_rows_are_drawn_as_often_as_they_should(sdo, vocab):
    assert all(figure.misfit < 1 for figure in rare_tokens(sdo, SHORT_SCORED, vocab))


def test_rare_tokens_drawn_with_noise_of_sixteen_bits_are_not():
    logits, _ = figures.row_with_rare_tokens(64)
    counts = figures.drawn_by_short_noise(logits, SHORT_SCORED // 64)
    assert max(figure.misfit for figure in figures.rare_tokens(counts, 64)) > 1


@pytest.mark.stats
def test_draws_drawn_again_are_the_same_and_at_another_offset_are_not(sdo):
    assert record(figures.drawn_again(sdo, FULL))
    assert record(figures.another_offset(sdo, FULL))


def test_fewer_draws_drawn_again_are_the_same(sdo):
    assert figures.drawn_again(sdo, SHORT).misfit < 1
    assert figures.another_offset(sdo, SHORT).misfit < 1


def drawn_by_place(sdo):
    """Row b draws from noise stream b, whatever its seed."""
    return lambda logits, seed, offset, **filters: sdo.sample(logits, seed=3, **filters)


def drawn_by_memory(sdo):
    """At an odd address a row is one percent warmer."""

    def sample(logits, **arguments):
        warmth = 1.01 if logits.data_ptr() % 8 else 1.0
        return sdo.sample(logits, temperature=warmth, **arguments)

    return sample


@pytest.mark.parametrize("wrong", [drawn_by_place, drawn_by_memory])
def test_draws_that_depend_on_their_place_or_memory_are_not(sdo, wrong):
    sampler = SimpleNamespace(sample=wrong(sdo))
    assert figures.drawn_again(sampler, SHORT).misfit > 1


def test_a_sampler_that_repeats_itself_once_in_fifty_is_not_independent():
    class Repeats:
        def sample(self, logits, seed, offset):
            g = torch.Generator().manual_seed(offset)
            fresh = logits[0].softmax(-1).multinomial(len(logits), True, generator=g)
            stale = (
                logits[0].softmax(-1).multinomial(len(logits), True, generator=g.manual_seed(seed))
            )
            return torch.where(torch.arange(len(logits)) % 50 == 0, stale, fresh)

    assert figures.another_offset(Repeats(), SHORT).misfit > 1


# ---- The checks themselves ----


@pytest.mark.parametrize("scale, vocab", [(0.0, 2), (3.0, 1000)])
def test_the_floor_is_the_mean_over_samples_of_the_law(scale, vocab):
    g = torch.Generator().manual_seed(1)
    law = (scale * torch.randn(vocab, generator=g).double()).softmax(-1)
    found = [
        fit.total_variation(torch.bincount(drawn, minlength=vocab), law)
        for drawn in law.multinomial(400 * 1000, True, generator=g).split(1000)
    ]
    floor = fit.expected_total_variation(law, 1000)
    deviation = float(torch.tensor(found).std()) / len(found) ** 0.5
    assert abs(sum(found) / len(found) - floor) < 5 * deviation  # left with probability 6e-7
    assert max(found) < fit.total_variation_limit(law, 1000)


def test_rare_tokens_lie_in_bins_of_their_own():
    """A thousand tokens expected once each make some forty bins; a bias in one of them shows."""
    law = torch.cat([torch.full((1000,), 1e-4), torch.tensor([0.9])]).double()
    counts = torch.cat([torch.ones(1000), torch.tensor([9000.0])])
    statistic, freedom = fit.chi_square(counts, law)
    assert statistic < 1e-6 and 38 <= freedom <= 40
    counts[:50] = 3
    counts[50:150] = 0
    assert fit.misfit(counts, law) > 1
