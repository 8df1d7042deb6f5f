# SPDX-License-Identifier: Apache-2.0
"""Does what a black box emits follow a law? For verifiers that draw their own random numbers.

For an event of chance p, n independent draws have a share of f or further from p with a chance of
at most 2 exp(-n KL(f, p)) (Chernoff), whatever n and p. Every set of outcomes is an event if there
are few, else each outcome is one; a false alarm has a chance of at most `alpha` over all together.
"""

import random
from collections import Counter
from itertools import combinations
from math import inf, log
from typing import NamedTuple, Optional

from .laws import rows_of


class Suspicion(NamedTuple):
    event: tuple  # outcomes
    share: float  # of the draws
    chance: float  # by the law
    least: float  # total variation, at the same level

    def __str__(self):
        return (
            f"{list(self.event)}: {self.share:.5f} of the draws, {self.chance:.5f} by the law: "
            f"total variation above {self.least:.5f}"
        )


def divergence(f, p):
    """KL(f, p) of two coins."""
    if (f > 0 and p == 0) or (f < 1 and p == 1):
        return inf
    return sum(a * log(a / b) for a, b in ((f, p), (1 - f, 1 - p)) if a > 0)


def events(outcomes, most=4096):
    outcomes = sorted(outcomes)
    if 2 ** (len(outcomes) - 1) > most:
        return [(o,) for o in outcomes]
    # A set and its complement are one event.
    sizes = range(1, len(outcomes))
    return [(outcomes[0], *rest) for size in sizes for rest in combinations(outcomes[1:], size - 1)]


def suspect(counts, law, alpha=1e-6) -> Optional[Suspicion]:
    """What proves that counts {outcome: n} are no draws of the law {outcome: chance}, or None."""
    n = sum(counts.values())
    every = events({*counts, *law})
    bound = log(2 * len(every) / alpha) / n
    worst = None
    for event in every:
        share = sum(counts.get(outcome, 0) for outcome in event) / n
        chance = min(float(sum(law.get(outcome, 0) for outcome in event)), 1.0)
        if divergence(share, chance) > bound:
            # KL(f, p) >= 2 (f - p)^2 (Pinsker).
            least = abs(share - chance) - (bound / 2) ** 0.5
            if worst is None or least > worst.least:
                worst = Suspicion(event, share, chance, max(least, 0.0))
    return worst


def counted(setup, length, draws, seed=1):
    """Counter of streams, the verifier drawing its own numbers: verify(p_rows, q_rows, tokens)."""
    dice = random.Random(seed)
    streams = Counter()
    for _ in range(draws):
        stream = ()
        while len(stream) < length:
            draft = setup.draft(stream, lambda i: dice.random())
            p_rows, q_rows, tokens = rows_of(setup, stream, draft)
            n, token = setup.verify(p_rows, q_rows, tokens)
            stream += (*tokens[: int(n)], int(token))
        streams[stream[:length]] += 1
    return streams
