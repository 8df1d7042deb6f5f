# SPDX-License-Identifier: Apache-2.0
"""spec_law finds what is wrong with each rule that is known to be wrong, and nothing in those that
are right."""

from fractions import Fraction as F

import pytest
import torch
from spec_law import (
    Boxes,
    Limits,
    Setup,
    biased,
    blame,
    distance,
    impossible,
    laws,
    samples,
    smallest,
)
from spec_law import models as toys
from spec_law.boxes import simplest
from spec_law.compiled import accept_of
from spec_law.models import constant, sampled, sure, told
from spec_law.rules import block_rule, coupled_rule, token_rule

SMALL = Limits(setups=800)
P, Q = constant(F(1, 3), F(2, 3)), constant(F(2, 3), F(1, 3))


# Verifier, the rule it means to be, the total variation of the smallest model, and what to blame.
EXPECTED = [
    (biased.subtracts_only_the_draft_token, "token", F(1, 4), "residual", 0),
    (biased.subtracts_nothing, "token", F(1, 4), "residual", 0),
    (biased.subtracts_by_rank, "token", F(1, 2), "residual", 0),
    (biased.accepts_half_the_ratio, "token", F(1, 4), "acceptance", 0),
    (biased.draws_the_bonus_from_the_row_before, "token", F(1), "bonus", 1),
    (biased.draws_with_the_uniform_that_rejected, "token", F(1, 6), "residual", 0),
    (biased.one_uniform_for_all_tests, "token", F(1, 4), "acceptance", 1),
    (biased.rejects_where_the_draft_ends, "token", F(1, 4), "end of the draft", 0),
    (biased.stops_at_the_first_failure, "block", F(1, 6), "acceptance", 0),
    (biased.last_joint_ratio_is_uncapped, "block", F(1, 9), "acceptance", 1),
    (biased.block_residual_without_the_joint_ratio, "block", F(1, 32), "residual", 1),
    (biased.tests_the_residual_itself, "block", F(1, 16), "acceptance", 0),
]


@pytest.mark.parametrize("verify, like, apart, branch, position", EXPECTED)
def test_the_smallest_model_and_the_branch_of_a_biased_rule_are_found(
    verify, like, apart, branch, position
):
    finding = smallest(verify, ("sampled", "ragged"), like=like)
    assert (finding.distance, finding.blame.branch, finding.blame.position) == (
        apart,
        branch,
        position,
    )
    assert branch in str(finding)


def test_every_biased_rule_is_expected_here():
    assert {verify for verify, *_ in EXPECTED} == {*biased.TOKEN, *biased.BLOCK}


@pytest.mark.parametrize("rule", [token_rule, block_rule])
def test_nothing_is_found_in_an_exact_rule(rule):
    assert smallest(rule, ("sampled", "ragged", "sure"), limits=SMALL) is None


def test_nothing_is_found_in_the_coupled_rule():
    key = laws.noise_of_the_position
    assert smallest(coupled_rule, key=key, limits=SMALL._replace(setups=150)) is None


SHARED = [
    (block_rule, laws.draft_noise_used_again, F(1, 18), "noise"),
    (token_rule, laws.one_noise_for_a_round, F(1, 2), "draft"),
    (coupled_rule, laws.noise_of_the_place, F(1, 4), "noise"),
    (biased.draws_again_what_differs, laws.noise_of_the_position, F(1, 4), "residual"),
]


@pytest.mark.parametrize("verify, key, apart, branch", SHARED)
def test_noise_that_should_not_be_shared_is_found(verify, key, apart, branch):
    finding = smallest(verify, key=key, limits=SMALL)
    assert (finding.distance, finding.blame.branch) == (apart, branch)


def test_draft_noise_used_again_under_the_block_rule_is_seven_in_108():
    setup = Setup(P, sampled(Q, 2), block_rule, laws.draft_noise_used_again)
    assert distance(setup, 3) == F(7, 108)
    assert blame(setup, 3).branch == "noise"
    assert distance(setup._replace(verify=token_rule), 3) == 0


def test_drafts_of_a_round_that_share_their_noise_are_a_lie_of_the_draft():
    half = constant(F(1, 2), F(1, 2))
    setup = Setup(P, sampled(half, 2), token_rule, laws.one_noise_for_a_round)
    assert distance(setup, 2) == F(5, 18)
    assert blame(setup, 2)[:2] == ("draft", 1)


# ---- Drafts that are not what the verifier is told ----


def dropping(draft, least):
    """The draft up to its first token whose q is below `least`, which is dropped, being drawn."""

    def sure_tokens_only(prefix, noise):
        kept = []
        for t, q in draft(prefix, noise):
            if q[t] < least:
                break
            kept.append((t, q))
        return kept

    return sure_tokens_only


def lies():
    soft = (F(51, 100), F(49, 100))
    yield "argmax scored by a soft law", soft, sure(lambda prefix: 0, 1), soft, F(49, 100)
    raw = (F(1, 2), F(1, 4), F(1, 4))
    filtered = sampled(constant(F(2, 3), F(1, 3), 0), 1)
    yield "filtered, scored by its raw law", (F(1, 2), F(1, 3), F(1, 6)), filtered, raw, F(1, 6)
    q = constant(F(3, 4), F(1, 4))
    dropped = dropping(sampled(q, 1), F(1, 2))
    yield "unlikely tokens dropped", (F(1, 2), F(1, 2)), dropped, None, F(1, 8)


@pytest.mark.parametrize("rule", [token_rule, block_rule])
@pytest.mark.parametrize("name, p, draft, tell, apart", list(lies()))
def test_a_draft_that_lies_is_caught(rule, name, p, draft, tell, apart):
    draft = told(draft, lambda t, q: tell or q)
    setup = Setup(constant(*p), draft, rule)
    assert distance(setup, 1) == apart
    assert blame(setup, 1)[:2] == ("draft", 0)


def test_a_token_outside_its_own_law_is_accepted_by_a_biased_rule_alone():
    p, q = constant(F(1, 2), F(1, 4), F(1, 4)), (F(1, 2), F(1, 2), F(0))
    setup = Setup(p, lambda prefix, noise: [(2, q)], biased.accepts_what_is_outside_its_law)
    assert distance(setup, 1) == F(3, 4)
    assert distance(setup._replace(verify=token_rule), 1) == 0
    assert blame(setup, 1).branch == "acceptance"


def test_a_residual_aligned_by_rank_emits_another_law():
    """With more tokens than the draft's list has, entry by entry is not token by token."""
    p = constant(F(5, 10), F(3, 10), F(2, 10), 0)
    q = constant(0, F(2, 10), F(3, 10), F(5, 10))
    setup = Setup(p, sampled(q, 1), biased.subtracts_by_rank)
    assert laws.stream_law(setup, 1) == {(0,): F(6, 10), (1,): F(2, 10), (2,): F(2, 10)}


# ---- Verifiers that need numbers ----


def in_numbers(rule):
    def call(p_rows, q_rows, tokens, uniforms):
        return [rule(p_rows, q_rows, tokens, [F(u) for u in point]) for point in uniforms]

    return call


@pytest.mark.parametrize(
    "rule", [token_rule, block_rule, biased.subtracts_nothing, biased.tests_the_residual_itself]
)
def test_bisection_finds_the_law_that_fractions_give(rule):
    setup = Setup(P, sampled(Q, 2), rule, context=len)
    assert laws.stream_law(setup._replace(verify=Boxes(in_numbers(rule))), 3) == laws.stream_law(
        setup, 3
    )


def test_answers_that_are_not_constant_on_boxes_raise():
    def parity(p_rows, q_rows, tokens, uniforms):
        return [(0, int(u * 2**30) % 2) for u, *_ in uniforms]

    with pytest.raises(ValueError, match="a finer grid is wanted"):
        Boxes(parity).verdicts(((F(1, 2), F(1, 2)),), (), ())


def test_the_simplest_fraction_between_two_is_found():
    for fraction in (F(1, 3), F(7, 108), F(130, 997), F(0), F(1)):
        near = F(round(fraction * 2**53), 2**53)
        assert simplest(near - F(1, 2**53), near + F(1, 2**53)) == fraction


MODELS = [(P, Q), (toys.table([(6, 4, 2), (0, 8, 4)]), toys.table([(2, 4, 6), (4, 8, 0)]))]


@pytest.mark.parametrize("target, model", MODELS)
@pytest.mark.parametrize("kind", ["sampled", "ragged", "sure"])
def test_the_compiled_accept_has_total_variation_0(sdo, target, model, kind):
    from spec_law.search import DRAFTS

    draft = DRAFTS[kind](model, 1)
    setup = Setup(target, draft, accept_of(sdo), context=lambda x: (target.state(x), len(x) % 2))
    assert distance(setup, 3) == 0


def test_so_has_it_on_rows_that_are_promised_to_be_normalized(sdo):
    target, model = constant(F(1, 8), F(7, 8)), constant(F(1, 2), F(1, 2))
    assert distance(Setup(target, sampled(model, 1), accept_of(sdo, normalized=True)), 2) == 0


def test_the_compiled_accept_accepts_what_the_token_rule_does(sdo):
    setup = Setup(P, sampled(Q, 2), accept_of(sdo, grid=6))
    assert laws.mean_accepted(setup) == F(10, 9)


def test_a_wrong_q_given_to_the_compiled_accept_is_caught(sdo):
    draft = told(sampled(Q, 1), lambda t, q: (F(1, 2), F(1, 2)))
    setup = Setup(P, draft, accept_of(sdo))
    assert distance(setup, 1) == F(1, 9)
    assert blame(setup, 1).branch == "draft"


# ---- The ends of the range of u, which have no chance of their own ----


def accepts_at_zero(p_rows, q_rows, tokens, uniforms):
    """u * q <= p, so that u = 0 accepts what is impossible."""
    [p], [q], [t], u = p_rows[:1], q_rows, tokens, uniforms[0]
    return (1, token_rule(p_rows[1:], [], [], uniforms[1:])[1]) if u * q[t] <= p[t] else (0, 0)


def test_an_impossible_token_at_the_ends_of_u_is_found(sdo):
    p, q = (F(1), F(0)), (F(1, 2), F(1, 2))
    rows = ((p, p), (q,), (1,))
    assert distance(Setup(constant(*p), sampled(constant(*q), 1), accepts_at_zero), 2) == 0
    assert impossible(in_numbers(accepts_at_zero), *rows) == ([0.0, 0.0], (1, 0))
    for call in (in_numbers(token_rule), in_numbers(block_rule), accept_of(sdo).call):
        assert impossible(call, *rows) is None


# ---- Verifiers that draw their own numbers: a false alarm has chance 1e-6 at most ----

DRAWS = 3000


def with_own_numbers(rule):
    dice = torch.Generator().manual_seed(7)

    def verify(p_rows, q_rows, tokens):
        uniforms = torch.rand(len(tokens) + 1, dtype=torch.float64, generator=dice)
        return rule(p_rows, q_rows, tokens, uniforms.tolist())

    return verify


def suspicion(rule):
    setup = Setup(P, sampled(Q, 2), with_own_numbers(rule))
    counts = samples.counted(setup, 3, DRAWS)
    return samples.suspect(counts, laws.plain_law(P, 3))


@pytest.mark.parametrize("rule", [token_rule, block_rule])
def test_draws_of_an_exact_rule_raise_no_suspicion(rule):
    assert suspicion(rule) is None


@pytest.mark.parametrize("rule", [biased.subtracts_nothing, biased.stops_at_the_first_failure])
def test_draws_of_a_biased_rule_do(rule):
    found = suspicion(rule)
    true = distance(Setup(P, sampled(Q, 2), rule), 3)
    assert 0 < found.least < true


def test_the_compiled_accept_raises_no_suspicion_with_its_own_generator(sdo):
    dice = torch.Generator().manual_seed(3)

    def verify(p_rows, q_rows, tokens):
        rows = torch.tensor([[float(x) for x in row] for row in (*p_rows, *q_rows)])
        target, draft = rows[: len(p_rows)], rows[len(p_rows) :]
        return sdo.accept(target, draft, torch.tensor(tokens), dice)

    counts = samples.counted(Setup(P, sampled(Q, 2), verify), 3, DRAWS)
    assert samples.suspect(counts, laws.plain_law(P, 3)) is None
