# SPDX-License-Identifier: Apache-2.0
"""The rules emit exactly the target's law, over several rounds, by enumeration in fractions."""

from fractions import Fraction as F

import pytest
from spec_law import Setup, distance, laws, mean_accepted, paths
from spec_law.models import constant, padded, sampled, sure, table
from spec_law.rules import block_rule, coupled_rule, joint_ratios, token_rule

RULES = [token_rule, block_rule]

# Zeros and certain tokens included.
TARGET_ROWS = {
    2: [(4, 8), (12, 0), (9, 3)],
    3: [(6, 4, 2), (0, 8, 4), (3, 0, 9), (4, 4, 4)],
    4: [(6, 3, 3, 0), (1, 2, 4, 5), (0, 0, 12, 0)],
}
DRAFT_ROWS = {
    2: [(8, 4), (6, 6), (0, 12), (5, 7)],
    3: [(2, 4, 6), (4, 8, 0), (12, 0, 0)],
    4: [(3, 3, 3, 3), (0, 6, 6, 0), (5, 4, 2, 1)],
}


def models(vocab):
    """Rows that depend on all of the prefix, and all of the prefix that they depend on."""
    target, model = table(TARGET_ROWS[vocab]), table(DRAFT_ROWS[vocab])
    return target, model, lambda prefix: (target.state(prefix), model.state(prefix))


def contexts(context, vocab):
    """A prefix for each state of both models."""
    found, frontier = {}, [()]
    while frontier:
        prefix = frontier.pop(0)
        if context(prefix) not in found:
            found[context(prefix)] = prefix
            frontier += [(*prefix, t) for t in range(vocab)]
    return list(found.values())


def drafts_of(model, vocab, k):
    """Drafts of each kind, which depend on the same as the model."""

    def certain(prefix):
        return model.state(prefix) % vocab

    def goes_on(prefix, tokens):
        return len(tokens) < 2 * model.state(prefix) % (k + 1)

    def stops_behind_token_1(prefix, tokens):
        return len(tokens) < k and not (tokens and tokens[-1][0] == 1)

    narrow = table([[*row[:-2], row[-2] + row[-1]] for row in DRAFT_ROWS[vocab]])
    return {
        "sampled": sampled(model, k),
        "one-hot": sure(certain, k, vocab),
        "told no law": sure(certain, k),
        "ragged": sampled(model, goes_on),
        "padded": padded(sampled(model, goes_on), k),
        "stopping": sampled(model, stops_behind_token_1),
        "narrow": sampled(narrow, k),
    }


DRAFTS = list(drafts_of(None, 2, 1))


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("vocab, k", [(v, k) for v in (2, 3, 4) for k in (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("rule", RULES)
def test_any_number_of_rounds_preserves_the_target_law(rule, vocab, k, draft):
    """One round, completed by plain sampling, is plain sampling, whatever came before it: so are
    any number of rounds."""
    target, model, context = models(vocab)
    setup = Setup(target, drafts_of(model, vocab, k)[draft], rule)
    prefixes = contexts(context, vocab)
    # 4 drafts of 4 tokens have 256 draws a prefix.
    for prefix in prefixes[:3] if (vocab, k) == (4, 4) else prefixes:
        assert laws.distance_of_a_round(setup, prefix, k + 1) == 0


# Three rounds, or two where there would be too many streams; a round emits up to k + 1 tokens.
LENGTHS = {(2, 1): 5, (2, 2): 7, (2, 3): 9, (2, 4): 11, (3, 1): 5, (3, 2): 7, (3, 3): 5, (4, 2): 5}


@pytest.mark.parametrize("draft", ["sampled", "one-hot", "padded", "stopping"])
@pytest.mark.parametrize("vocab, k", LENGTHS)
@pytest.mark.parametrize("rule", RULES)
def test_streams_of_two_and_three_rounds_follow_the_target(rule, vocab, k, draft):
    target, model, context = models(vocab)
    setup = Setup(target, drafts_of(model, vocab, k)[draft], rule, context=context)
    law = laws.stream_law(setup, LENGTHS[vocab, k])
    assert sum(law.values()) == 1
    assert laws.total_variation(law, laws.plain_law(target, LENGTHS[vocab, k])) == 0


@pytest.mark.parametrize("vocab, k", [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_coupled_streams_follow_the_target(vocab, k):
    """Draft and verifier share the noise of a position, also when it is drafted again."""
    target, model, _ = models(vocab)
    setup = Setup(target, sampled(model, k), coupled_rule, laws.noise_of_the_position)
    assert distance(setup, 4 if vocab < 4 else 3) == 0


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("vocab, length", [(2, 5), (3, 4), (4, 4)])
def test_coupled_streams_are_plain_sampling_for_all_noise(vocab, length, k):
    """Not only in law: cell by cell of the noise, the tokens are those that k = 0 emits."""
    target, model, _ = models(vocab)

    def within_the_stream(prefix, tokens):
        return len(tokens) < min(k, length - len(prefix))

    plain = Setup(target, sampled(model, 0), coupled_rule, laws.noise_of_the_position)
    setup = plain._replace(draft=sampled(model, within_the_stream))

    def both(noise):
        return laws.one_stream(setup, length, noise), laws.one_stream(plain, length, noise)

    for (speculative, sampled_plainly), _, _ in paths(both):
        assert speculative == sampled_plainly


# p = (1/3, 2/3) and q = (2/3, 1/3) in every context.
MEANS = {
    token_rule: [F(2, 3), F(10, 9), F(38, 27), F(130, 81)],
    block_rule: [F(2, 3), F(11, 9), F(5, 3), F(166, 81)],
}


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("rule", RULES)
def test_the_mean_accepted_length_is_the_published_one(rule, k):
    target, model = constant(F(1, 3), F(2, 3)), constant(F(2, 3), F(1, 3))
    assert mean_accepted(Setup(target, sampled(model, k), rule)) == MEANS[rule][k - 1]


@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_the_mean_accepted_length_is_the_sum_of_products_of_overlaps(vocab):
    """Of the token rule: sum_i E[prod_{j <= i} beta_j], the draft's tokens drawn as they stand
    accepted, beta_j the overlap sum_x min(p_j, q_j) there."""
    target, model, context = models(vocab)

    def expected(prefix, k):
        if not k:
            return 0
        both = list(map(min, target(prefix), model(prefix)))
        return sum(
            chance * (1 + expected((*prefix, t), k - 1)) for t, chance in enumerate(both) if chance
        )

    for prefix in contexts(context, vocab):
        setup = Setup(target, sampled(model, 3), token_rule)
        assert mean_accepted(setup, prefix) == expected(prefix, 3)


@pytest.mark.parametrize("vocab, k", [(2, 4), (3, 3), (4, 2)])
def test_the_block_rule_accepts_a_draft_with_its_joint_ratio(vocab, k):
    """P(all k accepted | tokens) = rho_k, and never less is accepted than by the token rule."""
    target, model, context = models(vocab)
    gained = 0
    for prefix in contexts(context, vocab):
        block, token = (Setup(target, sampled(model, k), rule) for rule in (block_rule, token_rule))
        gained += mean_accepted(block, prefix) - mean_accepted(token, prefix)
        assert mean_accepted(block, prefix) >= mean_accepted(token, prefix)
        for draft in laws.drafts_of(block, prefix):
            rows = laws.rows_of(block, prefix, draft)
            rho = joint_ratios(rows[0], rows[1], rows[2])[-1]
            verdicts = laws.verdicts(block_rule, *rows)
            assert sum(chance for (n, _), chance in verdicts.items() if n == k) == rho
    assert gained > 0


@pytest.mark.parametrize("vocab", [2, 3])
def test_for_one_draft_or_a_certain_one_block_and_token_rule_are_one_law(vocab):
    target, model, context = models(vocab)
    for draft in (sampled(model, 1), drafts_of(model, vocab, 3)["one-hot"]):
        for prefix in contexts(context, vocab):
            block, token = (Setup(target, draft, rule) for rule in RULES)
            assert laws.round_law(block, prefix) == laws.round_law(token, prefix)


def test_draft_noise_used_again_is_exact_for_the_token_rule_alone():
    target, model = constant(F(1, 3), F(2, 3)), constant(F(2, 3), F(1, 3))
    setup = Setup(target, sampled(model, 2), token_rule, laws.draft_noise_used_again)
    assert distance(setup, 3) == 0
    assert distance(setup._replace(verify=block_rule), 3) == F(7, 108)
    assert distance(setup._replace(verify=block_rule, key=None), 3) == 0


def test_draft_noise_used_again_is_exact_for_the_token_rule_in_context():
    target, model, _ = models(3)
    setup = Setup(target, sampled(model, 2), token_rule, laws.draft_noise_used_again)
    assert distance(setup, 4) == 0


def test_a_token_that_its_own_law_excludes_ends_the_draft():
    """It is not an event of the draft's law; drawing from p keeps the law whatever it was."""
    target, _, _ = models(3)
    q = (F(1, 2), F(1, 2), F(0))
    for rule in RULES:
        assert distance(Setup(target, lambda prefix, noise: [(2, q)], rule), 3) == 0
