# SPDX-License-Identifier: Apache-2.0
"""Verifiers that look right and are not: each has been shipped, or is one slip away.

What is wrong with one is said in its docstring; the kit has to find it without reading that.
"""

from fractions import Fraction

from .rules import block_residual, block_rule, difference, draft_laws, draw, joint_ratios

ONE = Fraction(1)


def _token_rule(p_rows, q_rows, tokens, uniforms, residual=None, ratio=None, bonus=-1):
    """The token rule with parts to replace."""
    laws = draft_laws(p_rows, q_rows, tokens)
    ratio = ratio or (lambda p, q, t: p[t] / q[t])
    residual = residual or (lambda p, q, t: difference(p, q))
    for i, (p, q, t, u) in enumerate(zip(p_rows, laws, tokens, uniforms)):
        if not u < ratio(p, q, t):
            return i, draw(residual(p, q, t), uniforms[-1])
    return len(laws), draw(p_rows[len(laws) + 1 + bonus], uniforms[-1])


# ---- The token rule ----


def subtracts_only_the_draft_token(p_rows, q_rows, tokens, uniforms):
    """The residual is p with q taken away at the draft token alone."""

    def residual(p, q, t):
        return [max(a - b, 0) if s == t else a for s, (a, b) in enumerate(zip(p, q))]

    return _token_rule(p_rows, q_rows, tokens, uniforms, residual)


def subtracts_nothing(p_rows, q_rows, tokens, uniforms):
    """After a rejection the token is drawn from p."""
    return _token_rule(p_rows, q_rows, tokens, uniforms, lambda p, q, t: p)


def subtracts_by_rank(p_rows, q_rows, tokens, uniforms):
    """The residual matches the lists of possible tokens entry by entry, not by token."""

    def residual(p, q, t):
        drafts = iter([b for b in q if b] + [0] * len(p))
        weights = [max(a - next(drafts), 0) if a else a for a in p]
        return weights if any(weights) else p

    return _token_rule(p_rows, q_rows, tokens, uniforms, residual)


def accepts_half_the_ratio(p_rows, q_rows, tokens, uniforms):
    """Accepts with p / 2q, and draws from the residual of p / q."""
    return _token_rule(p_rows, q_rows, tokens, uniforms, ratio=lambda p, q, t: p[t] / (2 * q[t]))


def draws_the_bonus_from_the_row_before(p_rows, q_rows, tokens, uniforms):
    """With all accepted, the last token comes from a row that has been used."""
    bonus = -2 if draft_laws(p_rows, q_rows, tokens) else -1
    return _token_rule(p_rows, q_rows, tokens, uniforms, bonus=bonus)


def draws_with_the_uniform_that_rejected(p_rows, q_rows, tokens, uniforms):
    """The residual is drawn with the uniform of the failed test, which is known to be large."""
    laws = draft_laws(p_rows, q_rows, tokens)
    for i, (p, q, t, u) in enumerate(zip(p_rows, laws, tokens, uniforms)):
        if not u * q[t] < p[t]:
            return i, draw(difference(p, q), u)
    return len(laws), draw(p_rows[len(laws)], uniforms[-1])


def one_uniform_for_all_tests(p_rows, q_rows, tokens, uniforms):
    """All draft tokens of a round are tested with the same uniform."""
    k = len(tokens)
    return _token_rule(p_rows, q_rows, tokens, [*uniforms[:1] * k, uniforms[-1]])


def accepts_what_is_outside_its_law(p_rows, q_rows, tokens, uniforms):
    """q(t) = 0 counts as a ratio of 1 or more."""
    for i, (p, q, t, u) in enumerate(zip(p_rows, q_rows, tokens, uniforms)):
        if q[t] and not u * q[t] < p[t]:
            return i, draw(difference(p, q), uniforms[-1])
    return len(tokens), draw(p_rows[-1], uniforms[-1])


def rejects_where_the_draft_ends(p_rows, q_rows, tokens, uniforms):
    """A draft that ends early (token -1) is treated as a rejection of token V-1."""
    laws = draft_laws(p_rows, q_rows, tokens)
    n, token = _token_rule(p_rows, q_rows, tokens, uniforms)
    if n == len(laws) < len(tokens):
        weights = [*p_rows[n][:-1], 0]
        return n, draw(weights if any(weights) else p_rows[n], uniforms[-1])
    return n, token


# ---- The block rule ----


def _block_tests(p_rows, laws, rho):
    """[(S_i, S_i + 1 - rho_i) for i = 1 .. k - 1]"""
    sums = [sum(block_residual(r, p, q)) for r, p, q in zip(rho, p_rows, laws)]
    return [(s, s + 1 - r) for s, r in list(zip(sums, rho))[1:]]


def stops_at_the_first_failure(p_rows, q_rows, tokens, uniforms):
    """The block rule's tests taken upwards, up to the first that fails."""
    laws = draft_laws(p_rows, q_rows, tokens)
    rho, k = joint_ratios(p_rows, laws, tokens), len(laws)
    tests = [*_block_tests(p_rows, laws, rho), (rho[k], ONE)] if k else []
    n = 0
    for (s, whole), u in zip(tests, uniforms):
        if whole and not u * whole < s:
            break
        n += 1
    if n == k:
        return k, draw(p_rows[k], uniforms[-1])
    residual = block_residual(rho[n], p_rows[n], laws[n])
    return n, draw(residual if any(residual) else p_rows[n], uniforms[-1])


def last_joint_ratio_is_uncapped(p_rows, q_rows, tokens, uniforms):
    """The last test takes the plain product of ratios, where an earlier cap should hold."""
    laws = draft_laws(p_rows, q_rows, tokens)
    product = ONE
    for p, q, t in zip(p_rows, laws, tokens):
        product *= p[t] / q[t]
    k = len(laws)
    if not k or uniforms[k - 1] < product:
        return k, draw(p_rows[k], uniforms[-1])
    never = [*uniforms[: k - 1], ONE, *uniforms[k:]]
    return block_rule(p_rows, q_rows, tokens, never)


def block_residual_without_the_joint_ratio(p_rows, q_rows, tokens, uniforms):
    """The tests are the block rule's, the token is drawn from max(p - q, 0)."""
    laws = draft_laws(p_rows, q_rows, tokens)
    # The draw decides nothing but the token, so that the number accepted can be asked for first.
    n, _ = block_rule(p_rows, q_rows, tokens, [*uniforms[:-1], Fraction(0)])
    return n, draw(difference(p_rows[n], laws[n]) if n < len(laws) else p_rows[n], uniforms[-1])


def tests_the_residual_itself(p_rows, q_rows, tokens, uniforms):
    """h_i = S_i, without its normaliser."""
    laws = draft_laws(p_rows, q_rows, tokens)
    rho, k = joint_ratios(p_rows, laws, tokens), len(laws)
    if not k or uniforms[k - 1] < rho[k]:
        return k, draw(p_rows[k], uniforms[-1])
    for i in range(k - 1, -1, -1):
        residual = block_residual(rho[i], p_rows[i], laws[i])
        if i == 0 or uniforms[i - 1] < sum(residual):
            return i, draw(residual if any(residual) else p_rows[i], uniforms[-1])


# ---- The coupled rule ----


def draws_again_what_differs(p_rows, q_rows, tokens, uniforms):
    """The first token that differs is drawn once more, with other noise, as a "correction"."""
    for i, (p, u) in enumerate(zip(p_rows, uniforms)):
        if i == len(tokens) or draw(p, u) != tokens[i]:
            return i, draw(p, uniforms[-1])


TOKEN = [
    subtracts_only_the_draft_token,
    subtracts_nothing,
    subtracts_by_rank,
    accepts_half_the_ratio,
    draws_the_bonus_from_the_row_before,
    draws_with_the_uniform_that_rejected,
    one_uniform_for_all_tests,
    rejects_where_the_draft_ends,
]
BLOCK = [
    stops_at_the_first_failure,
    last_joint_ratio_is_uncapped,
    block_residual_without_the_joint_ratio,
    tests_the_residual_itself,
]
