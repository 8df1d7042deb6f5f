# SPDX-License-Identifier: Apache-2.0
"""Published figures of verification, repeated: short here, at full size by `make stats`, which also
prints them. A right verifier fails one check with probability 1e-6 (fit.ALPHA)."""

import pytest
import verify_figures as figures
from figures import record

FULL, SHORT = 2**21, 2**16
VOCAB = 128
COLD, WARM = 0.6, 1.5  # what the siblings believe the temperature of the draft to be

OF_ONE_ROUND = [(figures.first_token, 1), (figures.acceptance, 1), (figures.accepted_lengths, 4)]


@pytest.mark.stats
@pytest.mark.parametrize("figure, k", OF_ONE_ROUND)
def test_the_published_figure_is_within_its_floor(sdo, figure, k):
    found = figure(figures.run(sdo, FULL, k, VOCAB))
    assert record(found)
    assert found.apart < found.published


@pytest.mark.parametrize("figure, k", OF_ONE_ROUND)
def test_fewer_trials_are_within_their_wider_floor(sdo, figure, k):
    assert figure(figures.run(sdo, SHORT, k, 32)).misfit < 1


@pytest.mark.parametrize("figure, k", OF_ONE_ROUND)
def test_a_draft_told_at_another_temperature_is_not(sdo, figure, k):
    assert figure(figures.run(sdo, SHORT, k, 8, told_temperature=COLD)).misfit > 1


@pytest.mark.stats
@pytest.mark.parametrize("texts, rounds", [(1, 600), (16, 19_200)])
def test_the_mean_accepted_length_is_within_its_floor(sdo, texts, rounds):
    assert record(figures.mean_accepted(sdo, rounds, texts))


def test_the_mean_accepted_length_of_short_rows_is_within_its_floor(sdo):
    assert figures.mean_accepted(sdo, 6400, 64, vocab=100).misfit < 1


def test_a_mean_accepted_length_under_a_draft_told_warmer_is_not(sdo):
    found = figures.mean_accepted(sdo, 6400, 64, vocab=100, told_temperature=WARM)
    assert found.misfit > 1
