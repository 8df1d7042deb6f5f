# SPDX-License-Identifier: Apache-2.0
"""Block verification (Sun et al. 2024) in integers: which draft tokens stand, and the token after.

Laws are masses with their totals, p / P and q / Q. The joint ratio rho_i is a whole number of units
of 2^-63, rounded down; everything else is exact. With

    W_i(x) = max(rho_i p_i(x) Q_i - 2^63 q_i(x) P_i, 0)     S_i = sum W_i
    N_i    = S_i + (2^63 - rho_i) P_i Q_i

test i, for 1 <= i < k, passes where w_i / 2^64 < S_i / N_i, and always where rho_i = 2^63; test k
passes where w_k / 2^64 < rho_{k-1} p Q / (2^63 q P) at the last token, not rounded: a draft of one
token is judged as by the token rule, word for word. The last test to pass, tau, says how many
tokens stand; then a token is drawn from W_tau, or from p_k if all stand. Masses are up to 2^43 and
totals up to 2^63, so that S and N have 190 bits at most.
"""

from fractions import Fraction

from oracle import oracle
from spec_law import integers, rules

ONE, WORDS = 2**63, 2**64


def next_ratio(rho, p, p_total, q, q_total):
    """min(1, rho * p(t) / q(t)). requires q > 0 and a total of p above 0"""
    return min(ONE, rho * p * q_total // (q * p_total))


def residual_of(rho, p, p_total, q, q_total):
    return [max(rho * a * q_total - ONE * b * p_total, 0) for a, b in zip(p, q)]


def laws_of(target, draft, tokens):
    """((p, P), (q, Q)) of each token up to where the draft ends: at a token that is outside q or
    has q = 0, or at a row of p that is empty."""
    for i, t in enumerate(tokens):
        (p, p_total), (q, q_total) = target(i), draft(i)
        width = max(len(p), len(q))
        p, q = p + [0] * (width - len(p)), q + [0] * (width - len(q))
        if not 0 <= t < width or not q[t] or not p_total:
            return
        yield (p, p_total), (q, q_total)


def verify_rows(target, draft, tokens, accept_word, residual_word, bonus_word, draw=oracle.draw):
    """As the token rule's. Test i takes the word of position i - 1, that of its last token."""
    laws = list(laws_of(target, draft, tokens))
    k, rho = len(laws), [ONE]
    for ((p, p_total), (q, q_total)), t in zip(laws, tokens):
        rho.append(next_ratio(rho[-1], p[t], p_total, q[t], q_total))
    if k:
        (p, p_total), (q, q_total), t = *laws[-1], tokens[k - 1]
        stands = accept_word(k - 1) * q[t] * p_total < 2 * rho[k - 1] * p[t] * q_total
    if not k or stands:
        return k, draw(target(k)[0], bonus_word(k))
    for i in range(k - 1, -1, -1):
        p, q = laws[i]
        # S_i <= rho_i P Q, so that this decides as the test below, before any row is read.
        if i and accept_word(i - 1) >= 2 * rho[i]:
            continue
        residual = residual_of(rho[i], *p, *q)
        s = sum(residual)
        n = s + (ONE - rho[i]) * p[1] * q[1]
        if i == 0 or rho[i] == ONE or accept_word(i - 1) * n < s << 64:
            return i, draw(residual if s else p[0], residual_word(i))


def verifier(p_rows, q_rows, tokens, uniforms):
    """The same for spec_law: words are the uniforms times 2^64, whole or not."""
    vocab = len(p_rows[0])

    def target(i):
        return integers(p_rows[i]), sum(integers(p_rows[i]))

    def draft(i):
        if q_rows[i] is None:
            return oracle.one_hot(tokens[i], vocab)
        return integers(q_rows[i]), sum(integers(q_rows[i]))

    def word(i):
        return uniforms[i] * WORDS

    def last(i):
        return word(-1)

    def draw(weights, word):
        return rules.draw(weights, word * Fraction(1, WORDS))

    return verify_rows(target, draft, tokens, word, last, last, draw)
