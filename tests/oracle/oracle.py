# SPDX-License-Identifier: Apache-2.0
"""What every op returns, to the bit, by full sorts and Python's own integers and fractions.

A row is a 1-D tensor of logits or probabilities; tokens, seeds and offsets are Python ints.
"""

import math
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from oracle.common import common

SAMPLE, SAMPLE_FINE, ACCEPT, RESIDUAL, BONUS = range(5)
MASS_OF_MAX = 2**43
MAX = np.finfo(np.float32).max
NONE = -1  # the token of a row that has none


class Filter(NamedTuple):
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0


class Place(NamedTuple):
    seed: int
    offset: int = 0
    stream: int = 0

    def word(self, purpose, index):
        return common.fraction(self.seed % 2**64, self.offset, self.stream, purpose, index)

    def noise(self, vocab):
        out = np.empty(vocab, np.float32)
        common.noise(self.seed % 2**64, self.offset, self.stream, vocab, out.ctypes.data)
        return out


# ---- A row of logits ----


def finite(result, operand):
    """Results that overflowed count as the nearest finite float."""
    return np.where(np.isfinite(operand), np.clip(result, -MAX, MAX), result)


def logits_of(row, penalty=1.0, previous=()):
    """float32, without NaN or +inf, penalised."""
    x = row.detach().float().numpy().copy()
    x[np.isnan(x)] = -np.inf
    ids = np.array(sorted({t for t in previous if 0 <= t < len(x)}), np.int64)
    penalty = np.float32(penalty)
    with np.errstate(over="ignore"):
        hit = x[ids]
        x[ids] = finite(np.where(hit < 0, hit * penalty, hit / penalty), hit)
    if np.isposinf(x).any():
        x = np.where(np.isposinf(x), np.float32(0), np.float32(-np.inf))
    return x


def first_maximum(x):
    return int(x.argmax()) if len(x) and x.max() > -np.inf else NONE


def quotients(x, temperature):
    with np.errstate(over="ignore", under="ignore"):
        return finite(x / np.float32(temperature), x)


def masses(x, temperature):
    """Integers in the proportions of softmax(x / temperature)."""
    out = np.zeros(len(x), np.uint64)
    if first_maximum(x) != NONE:
        x = np.ascontiguousarray(x, np.float32)
        common.masses(x.ctypes.data, len(x), x.max(), temperature, out.ctypes.data)
        out[np.isneginf(x)] = 0
    return out


def ceil_share(share, total):
    return math.ceil(Fraction(float(share)) * int(total))


def kept(x, filter):
    """Which tokens the filters keep. The temperature is above 0."""
    y = quotients(x, filter.temperature)
    keep = y > -np.inf
    if not keep.any():
        return keep
    if 0 < filter.top_k < len(x):
        keep &= y >= np.sort(y)[-filter.top_k]
    mass = masses(x, filter.temperature)
    if filter.top_p < 1:
        order = np.argsort(-y, kind="stable")
        sorted_mass = np.where(keep, mass, 0)[order].astype(np.uint64)
        before = sorted_mass.cumsum() - sorted_mass
        quota = max(ceil_share(max(filter.top_p, 0), sorted_mass.sum()), 1)
        keep[order] &= before < np.uint64(quota)
    if filter.min_p > 0:
        bound = ceil_share(min(filter.min_p, 1), MASS_OF_MAX)
        failing = keep & (mass < np.uint64(bound)) & (y < y.max())
        if failing.any():
            keep &= y > y[failing].max()
    return keep


# ---- sample, filter_logits ----


def filter_logits(row, filter, previous=()):
    x = logits_of(row, filter.penalty, previous)
    if filter.temperature > 0:
        return np.where(kept(x, filter), quotients(x, filter.temperature), np.float32(-np.inf))
    out = np.full(len(x), -np.inf, np.float32)
    best = first_maximum(x)
    if best != NONE:
        out[best] = x[best]
    return out


def argmax_of_sum(y, noise):
    """The token with the largest exact y + noise, the lower id among equals."""
    with np.errstate(over="ignore"):
        rounded = y + noise
    if first_maximum(y) == NONE:
        return NONE
    near = np.flatnonzero(rounded == rounded.max())  # rounding is monotone
    return int(max(near, key=lambda t: (Fraction(float(y[t])) + Fraction(float(noise[t])), -t)))


def sample(row, filter, place, previous=()):
    y = filter_logits(row, filter, previous)
    return argmax_of_sum(y, place.noise(len(y)) if filter.temperature > 0 else np.zeros_like(y))


# ---- Verification: rows are weights, lists of ints, with their total ----


def weights_of(row, filter, previous=()):
    x = logits_of(row, filter.penalty, previous)
    mass = np.where(kept(x, filter), masses(x, filter.temperature), 0)
    return [int(m) for m in mass], int(mass.sum())


def probability_weights(row, normalized):
    p = row.detach().float().numpy().astype(np.float64)
    p = np.where(p > 0, p, 0)  # NaN too
    bits = 43
    if not normalized and np.isposinf(p).any():
        p = np.isposinf(p).astype(np.float64)
    elif not normalized and p.any():
        mantissa, exponent = math.frexp(p.max())  # the power of two at or above it
        bits -= exponent - (mantissa == 0.5)
    units = np.rint(np.minimum(np.ldexp(p, bits), 2.0**43))
    return [int(unit) for unit in units], 2**43 if normalized else int(units.sum())


def draw(weights, word):
    """The first token whose running sum exceeds word / 2^64 of the whole."""
    goal = word * sum(weights) >> 64
    return next((t for t, running in enumerate(accumulate(weights)) if running > goal), NONE)


def one_hot(t, vocab):
    return [int(s == t) for s in range(vocab)], 1


def verify_rows(target, draft, tokens, accept_word, residual_word, bonus_word):
    """(tokens accepted, token emitted after them).

    target(i) and draft(i) give (weights, total); the words are functions of the position.
    """
    for i, t in enumerate(tokens):
        p, p_total = target(i)
        q, q_total = draft(i)
        width = max(len(p), len(q))  # what one vocabulary lacks has no weight in it
        p, q = p + [0] * (width - len(p)), q + [0] * (width - len(q))
        if not 0 <= t < width or q[t] == 0:
            return i, draw(p, bonus_word(i))
        if accept_word(i) * q[t] * p_total < p[t] * q_total << 64:
            continue
        residual = [max(a * q_total - b * p_total, 0) for a, b in zip(p, q)]
        return i, draw(residual if any(residual) else p, residual_word(i))
    return len(tokens), draw(target(len(tokens))[0], bonus_word(len(tokens)))


def verify_greedy(rows, tokens):
    for i, t in enumerate(tokens):
        best = first_maximum(logits_of(rows[i]))
        if t != best or t == NONE:
            return i, best
    return len(tokens), first_maximum(logits_of(rows[len(tokens)]))


def verify(target, draft, tokens, filter, place=None, previous=(), words=None, judge=verify_rows):
    """One sequence, target [k+1, V], draft [k, V] or None; words [k+1] stand in for Philox. The
    rule is `judge`, verify_rows or block's."""
    history = [[*previous, *tokens[:i]] for i in range(len(tokens) + 1)]
    if filter.temperature <= 0:
        for i, t in enumerate(tokens):
            best = first_maximum(logits_of(target[i], filter.penalty, history[i]))
            if t != best or t == NONE:
                return i, best
        return len(tokens), first_maximum(logits_of(target[-1], filter.penalty, history[-1]))

    def word(purpose):
        if words is None:
            return lambda i: place.word(purpose, i)
        return lambda i: words[i if purpose == ACCEPT else -1]

    def target_law(i):
        return weights_of(target[i], filter, history[i])

    def draft_law(i):
        if draft is None:
            return one_hot(tokens[i], target.shape[-1])
        return weights_of(draft[i], filter, history[i])

    return judge(target_law, draft_law, tokens, *map(word, (ACCEPT, RESIDUAL, BONUS)))


def verify_coupled(target, tokens, filter, place, previous=()):
    for i, t in enumerate([*tokens, NONE]):
        here = place._replace(offset=(place.offset + i) % 2**60)
        y = sample(target[i], filter, here, [*previous, *tokens[:i]])
        if y != t or y == NONE:
            return i, y


def accept(target, draft, tokens, uniforms, normalized=False, judge=verify_rows):
    words = [int(Fraction(float(u)) * 2**64) for u in uniforms]

    def target_law(i):
        return probability_weights(target[i], normalized)

    def draft_law(i):
        if draft is None:
            return one_hot(tokens[i], target.shape[-1])
        return probability_weights(draft[i], normalized)

    def draw_word(i):
        return words[-1]

    return judge(target_law, draft_law, tokens, words.__getitem__, draw_word, draw_word)
