# SPDX-License-Identifier: Apache-2.0
"""The compiled ops take the branch of the enumerated rule (law.py) on both sides of every decision.

A decision compares a 64-bit word w, the fraction w / 2^64, with a rational: for an accept test the
threshold p(t) / q(t), for a draw the running sums of its weights. Each is probed at the first word
on its far side and at the last one before it.
"""

import math
from fractions import Fraction as F
from itertools import accumulate, product

import law
import pytest
import torch
from law import TOKEN_RULE
from oracle import oracle

WORDS = 2**64
INF = math.inf


def first_word_at(boundary):
    """The least w with w / 2^64 >= boundary."""
    return math.ceil(boundary * WORDS)


def sides(boundary):
    word = first_word_at(boundary)
    return {min(max(w, 0), WORDS - 1) for w in (word - 1, word)}


def draw_words(weights):
    total = sum(weights)
    words = {0, WORDS - 1}
    for running in accumulate(weights):
        words |= sides(F(running) / total) if total else set()
    return sorted(words)


def probes(p_rows, q_rows, tokens):
    """Words [k+1] that reach each decision of a round with these draft tokens, from both sides."""
    k = len(tokens)
    for i, (p, q, t) in enumerate(zip(p_rows, q_rows, tokens)):
        threshold = TOKEN_RULE.threshold(p, q, t)
        if threshold is None:
            for word in draw_words(p):
                yield [*[0] * k, word]
            return
        for accept_word in sides(threshold):
            rejected = F(accept_word, WORDS) >= threshold
            for word in draw_words(TOKEN_RULE.residual(p, q, t)) if rejected else [0]:
                yield [*[0] * i, accept_word, *[0] * (k - i - 1), word]
        if not p[t]:
            return
    for word in draw_words(p_rows[k]):
        yield [*[0] * k, word]


def expected(p_rows, q_rows, tokens, words):
    return law.play(TOKEN_RULE, p_rows, q_rows, tokens, [F(w, WORDS) for w in words])


def one_hot(t, vocab):
    return tuple(F(s == t) for s in range(vocab))


def every_round(p_rows, q_rows, vocab, k):
    """(tokens, words) for all drafts, ended early ones among them."""
    for tokens in product(range(-1, vocab), repeat=k):
        rows = q_rows or [one_hot(t, vocab) for t in tokens]
        for words in probes(p_rows, rows, tokens):
            yield tokens, words, expected(p_rows, rows, tokens, words)


# ---- verify: logits ----

# Rows that meet p < q, p > q, p == q, zeros on either side, one token for sure, and none at all.
LOGITS = [
    [0.0, 0.0, 0.0, 0.0],
    [1.0, -0.5, 0.25, 2.0],
    [-1.0, 0.5, -INF, 0.75],
    [-INF, 3.0, -INF, -INF],
    [2.0, 1.0, -30.0, 0.0],
    [-INF, -INF, -INF, -INF],
    [INF, 0.0, INF, -INF],
]


def as_law(row, temperature):
    weights, total = oracle.weights_of(row, oracle.Filter(temperature))
    return tuple(F(w, total) if total else F(0) for w in weights)


def signed(word):
    return word - WORDS if word >= WORDS // 2 else word


LAYOUTS = [(2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (2, 3), (4, 2)]


@pytest.mark.parametrize("draft", ["soft", "same", "deterministic"])
@pytest.mark.parametrize("vocab, k", LAYOUTS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_verify_decides_as_the_rule_on_both_sides(sdo, vocab, k, draft, temperature):
    rounds = []
    for start in range(len(LOGITS)):
        rows = [torch.tensor(LOGITS[(start + i) % len(LOGITS)][:vocab]) for i in range(2 * k + 1)]
        target, drafted = rows[: k + 1], rows[:k] if draft == "same" else rows[k + 1 :]
        p_rows = [as_law(row, temperature) for row in target]
        q_rows = [as_law(row, temperature) for row in drafted]
        if draft == "deterministic":
            q_rows = None
        for tokens, words, result in every_round(p_rows, q_rows, vocab, k):
            rounds.append((torch.stack(target), torch.stack(drafted), tokens, words, result))
    target, drafted, tokens, words, results = zip(*rounds)
    accept_len, out = sdo._verify_with_words(
        torch.stack(target),
        None if draft == "deterministic" else torch.stack(drafted),
        torch.tensor(tokens),
        torch.tensor([[signed(w) for w in row] for row in words]),
        temperature=temperature,
    )
    last = out.gather(1, accept_len[:, None])[:, 0]
    assert list(zip(accept_len.tolist(), last.tolist())) == list(results)


# ---- accept: probabilities and float64 uniforms ----

UNIFORMS = 2**53

PROBABILITIES = [
    [0.25, 0.25, 0.5, 0.0],
    [0.125, 0.625, 0.25, 0.0],
    [0.0, 0.0, 1.0, 0.0],
    [0.3, 0.1, 0.2, 0.4],
    [0.0, 0.0, 0.0, 0.0],
    [0.6, 0.39, 0.01, 0.0],
]


def on_the_grid(word):
    """The uniforms m / 2^53 around it, the last at or before it and the first after it."""
    m = word >> 11
    return [F(m, UNIFORMS), F(min(m + 1, UNIFORMS - 1), UNIFORMS)]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("vocab, k", [(2, 1), (3, 2), (4, 1)])
def test_accept_decides_as_the_rule_on_both_sides(sdo, vocab, k, deterministic, normalized):
    accept = sdo._accept_with_uniforms
    for start in range(len(PROBABILITIES)):
        rows = [PROBABILITIES[(start + i) % len(PROBABILITIES)] for i in range(2 * k + 1)]
        rows = torch.tensor(rows)[:, :vocab].contiguous()
        target, draft = rows[: k + 1], rows[k + 1 :]
        p_rows, q_rows = [], []
        for row, laws in [(row, p_rows) for row in target] + [(row, q_rows) for row in draft]:
            weights, total = oracle.probability_weights(row, normalized)
            laws.append(tuple(F(w, total or 1) for w in weights))
        for tokens, words, _ in every_round(p_rows, None if deterministic else q_rows, vocab, k):
            rows_q = [one_hot(t, vocab) for t in tokens] if deterministic else q_rows
            for side in (0, 1):
                uniforms = [on_the_grid(w)[side] if w else F(0) for w in words]
                assert accept(
                    target,
                    None if deterministic else draft,
                    torch.tensor(tokens),
                    torch.tensor([float(u) for u in uniforms], dtype=torch.float64),
                    normalized=normalized,
                ) == law.play(TOKEN_RULE, p_rows, rows_q, tokens, uniforms)
