# SPDX-License-Identifier: Apache-2.0
"""The law of a speculative decoder by enumeration, in fractions: no sampling, no tolerance.

A model is a function from a prefix, a tuple of tokens, to a tuple of probabilities. A drafter is a
function from a prefix to every draft it may make: [(probability, [(token, q), ...]), ...], q being
the law that the verifier is told the token was drawn from. A rule is a pair of functions:
threshold(p, q, t), the uniform below which the draft token is accepted, or None where the draft
ends; and residual(p, q, t), the weights of the token drawn after a rejection.
"""

from collections import Counter, defaultdict
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Callable, NamedTuple

ONE = Fraction(1)


class Rule(NamedTuple):
    threshold: Callable
    residual: Callable


def ratio(p, q, t):
    return p[t] / q[t] if 0 <= t < len(p) and t < len(q) and q[t] else None


def difference(p, q, t):
    q = (*q, *[0] * len(p))
    residual = [max(a - b, 0) for a, b in zip(p, q)]
    return residual if any(residual) else list(p)


TOKEN_RULE = Rule(ratio, difference)


# ---- Drafters ----


def independent(draft, k):
    """k tokens, each drawn from the draft model; k may depend on the prefix."""

    def drafts(prefix):
        grown = [(ONE, [])]
        for _ in range(k(prefix) if callable(k) else k):
            step = []
            for weight, tokens in grown:
                q = draft((*prefix, *(t for t, _ in tokens)))
                step += [(weight * q[t], [*tokens, (t, q)]) for t in range(len(q)) if q[t]]
            grown = step
        return grown

    return drafts


def deterministic(choose, vocab, k):
    """The k tokens that choose(prefix) picks one after another, all of q on them."""

    def drafts(prefix):
        tokens = []
        for _ in range(k):
            t = choose((*prefix, *(t for t, _ in tokens)))
            tokens.append((t, tuple(Fraction(s == t) for s in range(vocab))))
        return [(ONE, tokens)]

    return drafts


# ---- Laws ----


def round_law(target, drafts, rule, prefix):
    """{(tokens emitted in one round, how many of them were accepted): probability}."""
    law = defaultdict(Fraction)

    def emit(weights, accepted, weight):
        total = sum(weights)
        for t, w in enumerate(weights):
            if w:
                law[(*accepted, t), len(accepted)] += weight * w / total

    for weight, draft in drafts(prefix):
        accepted = ()
        for t, q in draft:
            p = target(prefix + accepted)
            threshold = rule.threshold(p, q, t)
            if threshold is None:
                break
            chance = min(ONE, threshold)
            if chance < 1:
                emit(rule.residual(p, q, t), accepted, weight * (1 - chance))
            weight *= chance
            accepted += (t,)
            if not weight:
                break
        if weight:
            emit(target(prefix + accepted), accepted, weight)
    return law


def stream_law(target, drafts, rule, length):
    """{first `length` tokens: probability} over as many rounds as that takes."""

    @lru_cache(None)
    def after(prefix):
        if len(prefix) >= length:
            return {prefix[:length]: ONE}
        law = Counter()
        for (tokens, _), weight in round_law(target, drafts, rule, prefix).items():
            for stream, chance in after(prefix + tokens).items():
                law[stream] += weight * chance
        return law

    return after(())


def plain_law(target, length):
    """The same without speculation."""
    law = {(): ONE}
    for _ in range(length):
        law = {
            (*stream, t): weight * chance
            for stream, weight in law.items()
            for t, chance in enumerate(target(stream))
            if chance
        }
    return law


def total_variation(a, b):
    return sum(abs(a.get(key, 0) - b.get(key, 0)) for key in {*a, *b}) / 2


def mean_accepted(target, drafts, rule, prefix=()):
    return sum(n * weight for (_, n), weight in round_law(target, drafts, rule, prefix).items())


# ---- One round with given uniforms ----


def pick(weights, u):
    """The first token whose running sum exceeds u of the whole."""
    running, goal = 0, u * sum(weights)
    for t, weight in enumerate(weights):
        running += weight
        if goal < running:
            return t
    return -1


def play(rule, p_rows, q_rows, tokens, uniforms):
    """(tokens accepted, token after them); uniforms [k+1], the last one draws."""
    for i, (p, q, t) in enumerate(zip(p_rows, q_rows, tokens)):
        threshold = rule.threshold(p, q, t)
        if threshold is None:
            return i, pick(p, uniforms[-1])
        if uniforms[i] >= threshold:
            return i, pick(rule.residual(p, q, t), uniforms[-1])
    return len(tokens), pick(p_rows[len(tokens)], uniforms[-1])


# ---- The coupled rule: a token is a function of its position's noise ----


def coupled_stream(target, drafts, noise, sample, length, noise_of=lambda start, i: start + i):
    """The first `length` tokens. Row i of a round uses the noise of absolute position start + i."""
    stream = ()
    while len(stream) < length:
        start = len(stream)
        [(_, draft)] = drafts(stream)
        for i, t in enumerate([*(t for t, _ in draft), None]):
            y = sample(target(stream), noise[noise_of(start, i)])
            stream += (y,)
            if y != t:
                break
    return stream[:length]


def inverse(p, cell, cells):
    """The token at the middle of `cell` of [0, 1): exact where `cells` is a denominator of p."""
    running, goal = Fraction(0), Fraction(2 * cell + 1, 2 * cells)
    for t, chance in enumerate(p):
        running += chance
        if goal < running:
            return t


def every_noise(cells, length):
    return product(range(cells), repeat=length)
