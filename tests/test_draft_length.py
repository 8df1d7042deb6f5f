# SPDX-License-Identifier: Apache-2.0
"""How many tokens a round drafts: as many as pay, on a machine whose costs are known.

A target call that reads n tokens takes 1 if n is 1, else 1.3 + 0.035 n, about what a CPU shows; the
clock is wrong by up to half, upwards. Speeds are those of plain decoding's 1, over 128 tokens.
"""

import random
import statistics
import sys

import pytest

MOST, NEW, TEXTS = 10, 128, 40


def seconds(n):
    return 1.0 if n == 1 else 1.3 + 0.035 * n


def speed(length, acceptance, draft_cost, seed):
    """Tokens a second where the draft token at position i of the text is right with probability
    acceptance(i), for a draft token of so many seconds."""
    dice, tokens, time = random.Random(seed), 0, 0.0
    while tokens < NEW:
        plan = length.plan(min(MOST, NEW - tokens - 1))
        accepted = 0
        while accepted < plan.use and dice.random() < acceptance(tokens + accepted):
            accepted += 1
        drafting, reading = plan.ask * draft_cost, seconds(plan.use + 1)
        time += drafting + reading
        length.add_acceptance(plan.use, accepted)
        length.add_times(plan.ask, plan.use, drafting, reading * (1 + dice.random() / 2))
        if not plan.use:
            right = dice.random() < acceptance(tokens)
            length.watch([1] * plan.ask, [1 if right else 0])
        tokens += accepted + 1
    return tokens / time


@pytest.fixture(scope="module")
def adaptive(sdo):
    """The mean speed over texts."""
    module = sys.modules[sdo.__name__ + "._draft_length"]

    def mean(acceptance, draft_cost):
        chance = acceptance if callable(acceptance) else lambda i: acceptance
        lengths = ((module.AdaptiveLength(MOST), seed) for seed in range(TEXTS))
        return statistics.mean(speed(length, chance, draft_cost, seed) for length, seed in lengths)

    return mean


FREE, DEAR = 1e-5, 0.1


@pytest.mark.parametrize("draft_cost", [FREE, DEAR])
@pytest.mark.parametrize("acceptance", [0.0, 0.1, 0.2, 0.3])
def test_where_drafting_does_not_pay_little_is_lost(adaptive, acceptance, draft_cost):
    assert adaptive(acceptance, draft_cost) > 0.97


@pytest.mark.parametrize(
    ("acceptance", "draft_cost", "least"),
    [(0.6, FREE, 1.4), (0.8, FREE, 2.4), (0.95, FREE, 4.2), (0.8, DEAR, 1.55), (0.95, DEAR, 2.7)],
)
def test_where_drafting_pays_most_of_the_best_k_is_gained(adaptive, acceptance, draft_cost, least):
    assert adaptive(acceptance, draft_cost) > least


def test_a_text_that_begins_to_copy_is_noticed(adaptive):
    assert adaptive(lambda i: 0.97 if i >= NEW // 2 else 0.05, FREE) > 1.4
    assert adaptive(lambda i: 0.97 if i // 25 % 2 else 0.05, FREE) > 1.2


def test_an_outlier_of_the_clock_does_not_end_drafting(sdo):
    module = sys.modules[sdo.__name__ + "._draft_length"]
    length = module.AdaptiveLength(MOST)
    length.add_times(0, 0, 0.0, 5.0)  # reads the prompt
    for i in range(30):
        plan = length.plan(MOST)
        length.add_acceptance(plan.use, plan.use)
        length.add_times(plan.ask, plan.use, 0.0, 1000.0 if i == 20 else seconds(plan.use + 1))
        if i > 21:
            assert plan.use > 4
