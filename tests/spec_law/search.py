# SPDX-License-Identifier: Apache-2.0
"""The smallest model that shows what is wrong with a verifier.

Setups are tried in order of size, the sum of k, the vocabulary, four times the states of the model
and the denominator of its rows, which are all there are, zeros and certain tokens included.
"""

from fractions import Fraction
from itertools import product
from typing import Callable, NamedTuple, Optional

from .branches import Blame, blame
from .laws import Setup, distance
from .models import Table, padded, sampled, sure


def ragged(model, k):
    """k tokens after prefixes of even length, one less after the others; -1 in its place."""
    return padded(sampled(model, lambda prefix, tokens: len(tokens) + len(prefix) % 2 < k), k)


def first_token(model, k):
    """Token 0, again and again; the verifier is told no law."""
    return sure(lambda prefix: 0, k)


DRAFTS = {"sampled": sampled, "ragged": ragged, "sure": first_token}


class Limits(NamedTuple):
    k: int = 2
    vocab: int = 3
    states: int = 2
    denominator: int = 4
    setups: int = 5000  # tried, at most


class Finding(NamedTuple):
    distance: Fraction
    blame: Blame
    draft: str
    k: int
    length: int  # of the streams, the least at which it shows
    target: Table
    drafted: Table
    tried: int  # setups

    def __str__(self):
        return (
            f"total variation {self.distance} over {self.length} token(s), k = {self.k}, "
            f"{self.draft} draft\n  target {self.target}\n  draft  {self.drafted}\n  {self.blame}"
        )


def rows(vocab, denominator):
    """All laws on the vocabulary in units of 1 / denominator, that need this unit."""
    for weights in product(range(denominator + 1), repeat=vocab):
        law = tuple(Fraction(w, denominator) for w in weights)
        if sum(weights) == denominator:
            yield law


def needs(unit, laws):
    """Whether these rows have not been tried with a larger unit."""
    return unit == 1 or not any(
        unit % less == 0 and all((x * less).denominator == 1 for row in laws for x in row)
        for less in range(1, unit)
    )


def setups(verify, drafts=("sampled",), key=None, limits=None):
    """(draft's name, k, target, draft model, Setup), smallest first."""
    limits = limits or Limits()
    shapes = product(
        range(1, limits.k + 1),
        range(2, limits.vocab + 1),
        range(1, limits.states + 1),
        range(1, limits.denominator + 1),
    )
    for k, vocab, states, unit in sorted(shapes, key=lambda s: (s[0] + s[1] + 4 * s[2] + s[3], s)):
        some = list(rows(vocab, unit))
        for laws in product(some, repeat=2 * states):
            if not needs(unit, laws):
                continue
            target, model = Table(laws[:states]), Table(laws[states:])

            def context(prefix, target=target):
                return target.state(prefix), len(prefix) % 2

            for name in drafts:
                setup = Setup(target, DRAFTS[name](model, k), verify, key, context)
                yield name, k, target, model, setup


def smallest(
    verify: Callable,
    drafts=("sampled",),
    key: Optional[Callable] = None,
    limits: Optional[Limits] = None,
    like: Optional[str] = None,
):
    """The first setup whose streams of two rounds are biased: a Finding, or None within limits."""
    limits = limits or Limits()
    candidates = setups(verify, drafts, key, limits)
    for tried, (name, k, target, model, setup) in enumerate(candidates, 1):
        if distance(setup, k + 2):
            shown = ((n, distance(setup, n)) for n in range(1, k + 3))
            length, apart = next((n, tv) for n, tv in shown if tv)
            return Finding(apart, blame(setup, length, like), name, k, length, target, model, tried)
        if tried >= limits.setups:
            return None
    return None
