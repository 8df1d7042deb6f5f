# SPDX-License-Identifier: Apache-2.0
"""The block rule in integer masses, its joint ratio in 63 bits, is the rule in fractions up to the
last bit of a word."""

import random
from fractions import Fraction as F
from itertools import accumulate

import pytest
import torch
from oracle import block, oracle
from spec_law import Setup, distance, laws, mean_accepted
from spec_law.models import constant, padded, sampled, sure, table
from spec_law.rules import block_rule, token_rule
from test_boundaries import rounds_of

WORDS = 2**64


THIRDS = (constant(F(1, 3), F(2, 3)), constant(F(2, 3), F(1, 3)))
TABLES = (table([(6, 4, 2), (0, 8, 4), (3, 0, 9)]), table([(2, 4, 6), (4, 8, 0), (5, 4, 3)]))
EIGHTHS = (table([(1, 3, 4), (0, 4, 4)]), table([(2, 2, 4), (4, 0, 4)]))


def drafts(model, vocab, k):
    def goes_on(prefix, tokens):
        return len(tokens) < k - len(prefix) % 2

    return [
        sampled(model, k),
        padded(sampled(model, goes_on), k),
        sure(lambda prefix: len(prefix) % vocab, k, vocab),
        sure(lambda prefix: len(prefix) % vocab, k),
    ]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("target, model", [THIRDS, TABLES])
def test_its_law_is_the_targets_up_to_the_rounding_of_the_joint_ratio(target, model, k):
    """Each of the k - 1 ratios is rounded by less than 2^-63."""
    for draft in drafts(model, len(target(())), k):
        setup = Setup(target, draft, block.verifier)
        setup = setup._replace(context=lambda x: (target.state(x), model.state(x), len(x) % 6))
        assert distance(setup, k + 2) <= F((k - 1) * (k + 2), 2**63)


def test_the_rounding_is_not_nothing():
    target, model = TABLES
    setup = Setup(target, sampled(model, 3), block.verifier)
    assert distance(setup, 4) > 0


@pytest.mark.parametrize("k", [1, 2, 3])
def test_where_all_joint_ratios_are_whole_its_law_is_exact(k):
    target, model = EIGHTHS
    setup = Setup(target, sampled(model, k), block.verifier)
    assert distance(setup, k + 2) == 0
    assert mean_accepted(setup) == mean_accepted(setup._replace(verify=block_rule))


# ---- Words ----


def random_rounds(count):
    dice = random.Random(5)
    for _ in range(count):
        vocab, k = dice.randrange(1, 6), dice.randrange(0, 6)
        kind = dice.choice(["small", "large", "zeros"])

        def row(vocab=vocab, kind=kind):
            top = {"small": 4, "large": 2**43, "zeros": 2}[kind]
            return [dice.randrange(top) for _ in range(vocab)]

        target = [row() for _ in range(k + 1)]
        draft = [list(target[i]) if dice.random() < 0.2 else row() for i in range(k)]
        tokens = [dice.randrange(-1, vocab) if dice.random() < 0.1 else 0 for _ in range(k)]
        for i, q in enumerate(draft):
            if tokens[i] == 0 and any(q):
                tokens[i] = dice.choices(range(vocab), q)[0]
        yield target, draft, tokens, [dice.randrange(WORDS) for _ in range(k + 1)]


def verdict(verify_rows, target, draft, tokens, words):
    def law(rows):
        return lambda i: (rows[i], sum(rows[i]))

    def last(i):
        return words[-1]

    return verify_rows(law(target), law(draft), tokens, words.__getitem__, last, last)


def test_a_residual_needs_two_sums_of_64_bits_a_row_pair():
    """Over the tokens that it keeps, a of p and b of q: its running sums are rho Q a - 2^63 P b."""
    dice = random.Random(6)
    for target, draft, *_ in random_rounds(1000):
        for p, q in zip(target, draft):
            rho = dice.choice([0, 1, dice.randrange(block.ONE), block.ONE])
            of_p, of_q = rho * sum(q), block.ONE * sum(p)
            a = b = 0
            sums = accumulate(block.residual_of(rho, p, sum(p), q, sum(q)))
            for mass, drafted, running in zip(p, q, sums):
                if of_p * mass > of_q * drafted:
                    a, b = a + mass, b + drafted
                assert of_p * a - of_q * b == running


def test_words_decide_as_fractions_do():
    """Away from the last bit of a boundary, which random words are."""
    for target, draft, tokens, words in random_rounds(3000):
        if not all(map(any, target)):
            continue
        p_rows, q_rows = (
            [tuple(F(w, sum(row) or 1) for w in row) for row in rows] for rows in (target, draft)
        )
        wanted = block_rule(p_rows, q_rows, tokens, [F(word, WORDS) for word in words])
        assert verdict(block.verify_rows, target, draft, tokens, words) == wanted


@pytest.mark.parametrize("vocab, k, draft", [(3, 2, "soft"), (2, 3, "same"), (2, 2, "soft")])
def test_words_on_both_sides_of_its_boundaries_decide_as_its_law_does(vocab, k, draft):
    no_filter = oracle.Filter(1.0)
    for target, drafted, tokens, words, wanted in rounds_of(
        block.verifier, vocab, k, draft, no_filter.temperature
    ):
        masses = [[oracle.weights_of(row, no_filter) for row in rows] for rows in (target, drafted)]
        last = lambda i, words=words: words[-1]  # noqa: E731
        laws_ = [rows.__getitem__ for rows in masses]
        assert block.verify_rows(*laws_, tokens, words.__getitem__, last, last) == wanted


def test_a_draft_of_one_token_is_judged_as_by_the_token_rule_word_for_word():
    for target, draft, tokens, words in random_rounds(3000):
        for t, p, q in zip(tokens[:1], target, draft):
            if not (t >= 0 and q[t] and any(p)):
                continue
            threshold = -(-WORDS * p[t] * sum(q) // (q[t] * sum(p)))
            for word in {words[0], max(threshold - 1, 0) % WORDS, min(threshold, WORDS - 1)}:
                one = target[:2], draft[:1], tokens[:1], [word, words[-1]]
                assert verdict(block.verify_rows, *one) == verdict(oracle.verify_rows, *one)


def test_an_empty_row_emits_nothing():
    for words in ([0, 0, 0], [WORDS - 1] * 3):
        rows = [[1, 2], [0, 0], [1, 1]], [[1, 2], [1, 1]], [0, 1], words
        assert verdict(block.verify_rows, *rows) == (1, -1)


def test_certain_drafts_have_the_token_rules_law():
    """For draft_logits=None the block rule may be the token rule, which reads fewer rows."""
    target, _ = TABLES
    for k in (1, 2, 3):
        draft = sure(lambda prefix: len(prefix) % 3, k)
        token, block_ = (Setup(target, draft, rule) for rule in (token_rule, block_rule))
        for prefix in [(), (0,), (1,), (2,)]:
            assert laws.round_law(token, prefix) == laws.round_law(block_, prefix)


def test_the_reference_in_floats_is_the_rule_in_fractions(sdo):
    """At float64 words that no boundary is near to."""
    for target, draft, tokens, words in random_rounds(300):
        if not all(map(any, target)) or not all(map(any, draft)) or not tokens:
            continue
        p_rows, q_rows = (
            [tuple(F(w, sum(row)) for w in row) for row in rows] for rows in (target, draft)
        )
        uniforms = [F(float(F(word, WORDS))) for word in words]
        rows = [torch.tensor(r, dtype=torch.float64) for r in (target, draft)]
        given = (*rows, torch.tensor(tokens), torch.tensor(list(map(float, uniforms))).double())
        wanted = block_rule(p_rows, q_rows, tokens, uniforms)
        assert sdo.reference.accept_block(*given) == wanted
