# SPDX-License-Identifier: Apache-2.0
"""The compiled ops take the branch of the exact rule on both sides of every decision.

A decision compares a 64-bit word w, the fraction w / 2^64, with a rational: for an accept test the
threshold p(t) / q(t), for a draw the running sums of its weights. Running the rule in fractions
(spec_law) gives every branch with the box of uniforms that leads there; each of its sides is probed
at the last word before it and the first one on its far side.
"""

import math
from fractions import Fraction as F
from itertools import product

import pytest
import torch
from oracle import oracle
from spec_law import biased, paths
from spec_law.rules import token_rule

WORDS = 2**64
INF = math.inf


def first_word_at(boundary):
    """The least w with w / 2^64 >= boundary."""
    return math.ceil(boundary * WORDS)


def probes(rule, p_rows, q_rows, tokens):
    """Words [k+1] at both ends of each side of the box of each branch."""
    uniforms = range(len(tokens) + 1)

    def branch(noise):
        return rule(p_rows, q_rows, tokens, [noise(i) for i in uniforms])

    for _, _, boxes in paths(branch):
        ends = []
        for i in uniforms:
            low, high = boxes.get(i, (0, 1))
            ends.append((first_word_at(low), first_word_at(high) - 1))
        if any(first > last for first, last in ends):
            continue  # thinner than a word
        yield [first for first, _ in ends]
        for i in uniforms:
            yield [last if i == j else first for j, (first, last) in enumerate(ends)]


def ruled(rule, p_rows, q_rows, tokens, uniforms):
    return rule(p_rows, q_rows or [None] * len(tokens), tokens, uniforms)


def every_round(rule, p_rows, q_rows, vocab, k):
    """(tokens, words, what the rule makes of them) for all drafts, ended early ones among them."""
    for tokens in product(range(-1, vocab), repeat=k):
        for words in probes(rule, p_rows, q_rows or [None] * k, tokens):
            yield tokens, words, ruled(rule, p_rows, q_rows, tokens, [F(w, WORDS) for w in words])


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


def rounds_of(rule, vocab, k, draft, temperature):
    """(target, draft, tokens, words, what the rule makes of them)"""
    for start in range(len(LOGITS)):
        rows = [torch.tensor(LOGITS[(start + i) % len(LOGITS)][:vocab]) for i in range(2 * k + 1)]
        target, drafted = rows[: k + 1], rows[:k] if draft == "same" else rows[k + 1 :]
        p_rows = [as_law(row, temperature) for row in target]
        q_rows = [as_law(row, temperature) for row in drafted]
        if draft == "deterministic":
            q_rows = None
        for tokens, words, result in every_round(rule, p_rows, q_rows, vocab, k):
            yield torch.stack(target), torch.stack(drafted), tokens, words, result


def verified(sdo, target, drafted, tokens, words, temperature):
    accept_len, out = sdo._verify_with_words(
        torch.stack(target),
        drafted and torch.stack(drafted),
        torch.tensor(tokens),
        torch.tensor([[signed(w) for w in row] for row in words]),
        temperature=temperature,
    )
    last = out.gather(1, accept_len[:, None])[:, 0]
    return list(zip(accept_len.tolist(), last.tolist()))


@pytest.mark.parametrize("draft", ["soft", "same", "deterministic"])
@pytest.mark.parametrize("vocab, k", LAYOUTS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_verify_decides_as_the_rule_on_both_sides(sdo, vocab, k, draft, temperature):
    target, drafted, tokens, words, results = zip(
        *rounds_of(token_rule, vocab, k, draft, temperature)
    )
    if draft == "deterministic":
        drafted = None
    assert verified(sdo, target, drafted, tokens, words, temperature) == list(results)


@pytest.mark.parametrize("rule", biased.TOKEN)
def test_the_sides_tell_a_rule_from_a_biased_one(sdo, rule):
    target, drafted, tokens, words, results = zip(*rounds_of(rule, 3, 2, "soft", 1.0))
    assert verified(sdo, target, drafted, tokens, words, 1.0) != list(results)


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
        told = None if deterministic else q_rows
        for tokens, words, _ in every_round(token_rule, p_rows, told, vocab, k):
            for side in (0, 1):
                uniforms = [on_the_grid(w)[side] if w else F(0) for w in words]
                assert accept(
                    target,
                    None if deterministic else draft,
                    torch.tensor(tokens),
                    torch.tensor([float(u) for u in uniforms], dtype=torch.float64),
                    normalized=normalized,
                ) == ruled(token_rule, p_rows, told, tokens, uniforms)
