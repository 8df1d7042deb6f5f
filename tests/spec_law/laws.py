# SPDX-License-Identifier: Apache-2.0
"""The law of the tokens that a target, a draft and a verifier emit together, in fractions.

Streams over several rounds, cut at a length, are compared with those of plain sampling.
"""

from collections import defaultdict
from fractions import Fraction
from functools import lru_cache
from typing import Callable, NamedTuple, Optional

from .uniforms import paths

ONE = Fraction(1)


def whole(prefix):
    return prefix


class Setup(NamedTuple):
    """What is enumerated.

    key(purpose, number of the round, its first position, i) names the noise of "draft" or "verify"
    number i of a round: two that are named alike are one. None: nothing is used twice.
    context(prefix) is all of the prefix that target and draft depend on.
    """

    target: Callable
    draft: Callable
    verify: Callable
    key: Optional[Callable] = None
    context: Callable = whole


def rows_of(setup, prefix, draft):
    tokens = tuple(t for t, _ in draft)
    p_rows = tuple(setup.target(prefix + tokens[:i]) for i in range(len(tokens) + 1))
    return p_rows, tuple(q for _, q in draft), tokens


# ---- One round, no noise of which is used again ----


@lru_cache(100_000)
def verdicts(verify, p_rows, q_rows, tokens):
    """{(tokens accepted, token after them): chance} of a verifier in one round."""
    if hasattr(verify, "verdicts"):
        return verify.verdicts(p_rows, q_rows, tokens)
    law = defaultdict(Fraction)

    def program(noise):
        return verify(p_rows, q_rows, tokens, [noise(i) for i in range(len(tokens) + 1)])

    for (n, token), chance, _ in paths(program):
        law[int(n), int(token)] += chance
    return dict(law)


def drafts_of(setup, prefix):
    """{draft, a tuple of (token, told row): chance}."""
    law = defaultdict(Fraction)
    key = setup.key or (lambda purpose, number, start, i: i)

    def program(noise):
        return tuple(setup.draft(prefix, lambda i: noise(key("draft", 0, len(prefix), i))))

    for draft, chance, _ in paths(program):
        law[draft] += chance
    return law


def round_law(setup, prefix=()):
    """{(tokens emitted in one round, how many of them were accepted): chance}."""
    law = defaultdict(Fraction)
    for draft, chance in drafts_of(setup, prefix).items():
        p_rows, q_rows, tokens = rows_of(setup, prefix, draft)
        for (n, token), verdict in verdicts(setup.verify, p_rows, q_rows, tokens).items():
            law[(*tokens[:n], token), n] += chance * verdict
    return dict(law)


def mean_accepted(setup, prefix=()):
    return sum(n * chance for (_, n), chance in round_law(setup, prefix).items())


# ---- Streams ----


def stream_law(setup, length):
    """{first `length` tokens: chance} over as many rounds as that takes."""
    if setup.key is not None:
        return stream_law_of_shared_noise(setup, length)
    # One prefix stands for all of its context: those of the same length are cut at the same place.
    known = {}

    def after(prefix):
        if len(prefix) >= length:
            return {(): ONE}
        place = len(prefix), setup.context(prefix)
        if place not in known:
            law = defaultdict(Fraction)
            for (tokens, _), chance in round_law(setup, prefix).items():
                tokens = tokens[: length - len(prefix)]
                for stream, rest in after(prefix + tokens).items():
                    law[tokens + stream] += chance * rest
            known[place] = dict(law)
        return known[place]

    return after(())


def stream_law_of_shared_noise(setup, length):
    law = defaultdict(Fraction)
    for stream, chance, _ in paths(lambda noise: one_stream(setup, length, noise)):
        law[stream] += chance
    return dict(law)


def one_stream(setup, length, noise):
    """The first `length` tokens, noise(key) being given."""
    stream, number = (), 0
    while len(stream) < length:
        start = len(stream)

        def named(purpose, i, number=number, start=start):
            return noise(setup.key(purpose, number, start, i))

        draft = setup.draft(stream, lambda i, named=named: named("draft", i))
        p_rows, q_rows, tokens = rows_of(setup, stream, draft)
        uniforms = [named("verify", i) for i in range(len(tokens) + 1)]
        n, token = setup.verify(p_rows, q_rows, tokens, uniforms)
        stream += (*tokens[:n], token)
        number += 1
    return stream[:length]


def plain_law(target, length, start=()):
    """The same without speculation."""
    law = {(): ONE}
    for _ in range(length):
        law = {
            (*stream, t): weight * chance
            for stream, weight in law.items()
            for t, chance in enumerate(target((*start, *stream)))
            if chance
        }
    return law


def total_variation(a, b):
    return sum(abs(a.get(key, 0) - b.get(key, 0)) for key in {*a, *b}) / 2


def distance(setup, length):
    """The total variation between the streams of a setup and those of plain sampling."""
    return total_variation(stream_law(setup, length), plain_law(setup.target, length))


def distance_of_a_round(setup, prefix, length):
    """The same of one round after the prefix, completed by plain sampling up to `length` tokens. If
    it is 0 after every prefix, any number of rounds is exact, by induction."""
    law = defaultdict(Fraction)
    for (tokens, _), chance in round_law(setup, prefix).items():
        rest = plain_law(setup.target, length - len(tokens), prefix + tokens)
        for stream, weight in rest.items():
            law[tokens + stream] += chance * weight
    return total_variation(law, plain_law(setup.target, length, prefix))


# ---- Noise that is used more than once, on purpose or by mistake ----


def noise_of_the_position(purpose, number, start, i):
    """The coupled rule's: draft and verifier share what belongs to a position in the text."""
    return start + i


def draft_noise_used_again(purpose, number, start, i):
    """A position that is drafted again is drafted with the same noise."""
    return (purpose, start + i) if purpose == "draft" else (purpose, number, i)


def one_noise_for_a_round(purpose, number, start, i):
    """The drafts of a round share theirs."""
    return (purpose, number, i if purpose == "verify" else 0)


def noise_of_the_place(purpose, number, start, i):
    """The coupled rule's noise counted from the start of the round, so that rounds repeat it."""
    return i
