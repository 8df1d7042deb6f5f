# SPDX-License-Identifier: Apache-2.0
"""The rules that preserve the target's law, as verifiers.

    verify(p_rows, q_rows, tokens, uniforms) -> (tokens accepted, the token after them)

p_rows [k+1] are the target's laws, q_rows [k] those the draft tokens were drawn from, None for a
token that was sure to be drafted. Rows are tuples of rationals that sum to 1, a row of q may be
shorter than one of p. uniforms [k+1] are used once: one a draft token, and one for the last draw.
"""

from fractions import Fraction


def draw(weights, u):
    """The first token whose running sum exceeds u of the whole."""
    running, goal = 0, u * sum(weights)
    for t, weight in enumerate(weights):
        running += weight
        if goal < running:
            return t
    return -1


def difference(p, q):
    """max(p - q, 0), and p itself where that has no mass."""
    residual = [max(a - b, 0) for a, b in zip(p, q)]
    return residual if any(residual) else p


def draft_laws(p_rows, q_rows, tokens):
    """The rows of q as wide as p, up to where the draft ends: at a token outside p's vocabulary or
    with q = 0."""
    laws = []
    for p, q, t in zip(p_rows, q_rows, tokens):
        if not 0 <= t < len(p):
            break
        if q is None:
            q = tuple(Fraction(s == t) for s in range(len(p)))
        q = (*q, *[0] * (len(p) - len(q)))
        if not q[t]:
            break
        laws.append(q)
    return laws


def token_rule(p_rows, q_rows, tokens, uniforms):
    """Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2."""
    laws = draft_laws(p_rows, q_rows, tokens)
    for i, (p, q, t, u) in enumerate(zip(p_rows, laws, tokens, uniforms)):
        if not u * q[t] < p[t]:
            return i, draw(difference(p, q), uniforms[-1])
    return len(laws), draw(p_rows[len(laws)], uniforms[-1])


def joint_ratios(p_rows, laws, tokens):
    """rho_0 .. rho_k: rho_i = min(1, rho_{i-1} p(t) / q(t)) at the i-th token."""
    rho = [Fraction(1)]
    for p, q, t in zip(p_rows, laws, tokens):
        rho.append(min(Fraction(1), rho[-1] * p[t] / q[t]))
    return rho


def block_residual(rho, p, q):
    return [max(rho * a - b, 0) for a, b in zip(p, q)]


def block_rule(p_rows, q_rows, tokens, uniforms):
    """Sun et al. 2024, block verification, in its lazy form: from the last token down, the first
    that stands takes all before it with it. P(at least i accepted | tokens) = rho_i."""
    laws = draft_laws(p_rows, q_rows, tokens)
    k = len(laws)
    rho = joint_ratios(p_rows, laws, tokens)
    if k and uniforms[k - 1] < rho[k] or not k:
        return k, draw(p_rows[k], uniforms[-1])
    for i in range(k - 1, -1, -1):
        residual = block_residual(rho[i], p_rows[i], laws[i])
        stands = sum(residual)
        if i == 0 or rho[i] == 1 or uniforms[i - 1] * (stands + 1 - rho[i]) < stands:
            return i, draw(residual if stands else p_rows[i], uniforms[-1])


def coupled_rule(p_rows, q_rows, tokens, uniforms):
    """Daliri et al. 2024: each position samples from p with its own noise, and goes on while that
    is the draft token."""
    for i, (p, u) in enumerate(zip(p_rows, uniforms)):
        y = draw(p, u)
        if i == len(tokens) or y != tokens[i]:
            return i, y


EXACT = {"token": token_rule, "block": block_rule, "coupled": coupled_rule}
