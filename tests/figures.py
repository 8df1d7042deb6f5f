# SPDX-License-Identifier: Apache-2.0
"""The figures that cards of such packages publish, measured: each beside its analytic value, what
chance alone would leave between the two (the floor), and the limit that a right verifier exceeds
with probability ALPHA at most.
"""

from math import log
from typing import NamedTuple

import torch
from fit import ALPHA
from spec_law.samples import divergence

CHUNK = 2**16  # trials of one call
NORMAL = 4.8916  # |deviations| of a normal variable, exceeded with probability ALPHA


class Figure(NamedTuple):
    name: str
    trials: int
    measured: float
    wanted: float
    apart: float
    floor: float  # the mean of `apart`, or a bound on it, for a right verifier
    limit: float
    published: float  # `apart` on the card

    @property
    def misfit(self):
        """Above 1 the verifier is wrong."""
        return self.apart / self.limit


HEADER = (
    f"{'':<44}{'trials':>9}{'measured':>10}{'law':>10}{'apart':>10}{'floor':>10}{'limit':>10}"
    f"{'published':>11}"
)


def line(f):
    return (
        f"{f.name:<44}{f.trials:>9}{f.measured:>10.5f}{f.wanted:>10.5f}{f.apart:>10.2e}"
        f"{f.floor:>10.2e}{f.limit:>10.2e}{f.published:>11.1e}"
    )


# ---- Trials of one round, k drafts of one pair of models ----


class Trials(NamedTuple):
    p: torch.Tensor  # float64 [k+1, V]
    q: torch.Tensor  # [k, V]
    lengths: torch.Tensor  # counts of 0 .. k accepted
    first: torch.Tensor  # counts of the first token

    @property
    def count(self):
        return int(self.lengths.sum())


def run(sdo, trials, k, vocab, told_temperature=1.0):
    """The draft is the target with noise; the verifier is told its law at some temperature."""
    g = torch.Generator().manual_seed(12)
    target = 1.5 * torch.randn(k + 1, vocab, generator=g)
    draft = target[:k] + torch.randn(k, vocab, generator=g)
    told = draft / told_temperature
    lengths, first = torch.zeros(k + 1), torch.zeros(vocab)
    for chunk in range(0, trials, CHUNK):
        rows = min(CHUNK, trials - chunk)
        offset = (k + 1) * chunk
        drawn = [sdo.sample(draft[j].expand(rows, -1), seed=5, offset=offset + j) for j in range(k)]
        accept_len, out = sdo.verify(
            target.expand(rows, -1, -1),
            told.expand(rows, -1, -1),
            torch.stack(drawn, 1),
            seed=5,
            offset=offset,
        )
        lengths += torch.bincount(accept_len, minlength=k + 1)
        first += torch.bincount(out[:, 0], minlength=vocab)
    return Trials(target.double().softmax(-1), draft.double().softmax(-1), lengths, first)


def binomial_limit(p, n, events=1):
    """How far a share of n draws may lie from p: the d with n KL(p + d, p) = log(2 / alpha)."""
    bound = log(2 * events / ALPHA) / n
    low, high = 0.0, 1.0
    for _ in range(60):
        d = (low + high) / 2
        inside = min(divergence(min(p + d, 1), p), divergence(max(p - d, 0), p)) < bound
        low, high = (d, high) if inside else (low, d)
    return high


def first_token(run):
    """TVD of the first token. Its mean is at most half the sum of its cells' deviations, and one
    draw moves it by 1 / n at most (McDiarmid)."""
    p, n = run.p[0], run.count
    apart = float((run.first.double() / n - p).abs().sum() / 2)
    floor = float((p * (1 - p) / n).sqrt().sum() / 2)
    limit = floor + (log(1 / ALPHA) / (2 * n)) ** 0.5
    return Figure("first token, total variation", n, apart, 0.0, apart, floor, limit, 3.4e-3)


def acceptance(run):
    beta, n = float(torch.minimum(run.p[0], run.q[0]).sum()), run.count
    share = float(run.lengths[1:].sum()) / n
    floor = (2 / torch.pi * beta * (1 - beta) / n) ** 0.5
    limit = binomial_limit(beta, n)
    name = "acceptance, against sum of min(p, q)"
    return Figure(name, n, share, beta, abs(share - beta), floor, limit, 4e-4)


def accepted_lengths(run):
    """The length that is furthest from its law, prod_{j < i} beta_j (1 - beta_i)."""
    n, beta = run.count, torch.minimum(run.p[:-1], run.q).sum(-1)
    reached = torch.cat([torch.ones(1).double(), beta.cumprod(0)])
    law = reached - torch.cat([reached[1:], torch.zeros(1).double()])
    shares = run.lengths.double() / n
    limits = [binomial_limit(float(chance), n, len(law)) for chance in law]
    worst = int(((shares - law).abs() / torch.tensor(limits)).argmax())
    measured, wanted, limit = float(shares[worst]), float(law[worst]), limits[worst]
    floor = (2 / torch.pi * wanted * (1 - wanted) / n) ** 0.5
    name = f"accepted length of {len(beta)} drafts, worst ({worst})"
    return Figure(name, n, measured, wanted, abs(measured - wanted), floor, limit, 3e-4)


# ---- Texts of many rounds, whose rows depend on the text ----


def mean_accepted(sdo, rounds, texts=1, k=4, vocab=32000, told_temperature=1.0):
    """Against sum_i E[prod_{j < i} beta_j], from the run's own rows: what the draft's own tokens
    make of it is prod_{j < i-1} min(1, p / q)(t_j) * beta_{i-1}, whose mean is P(at least i)."""
    g = torch.Generator().manual_seed(9)
    states = 16
    target = 2 * torch.randn(states, vocab, generator=g)
    draft = target + torch.randn(states, vocab, generator=g)
    p, q = target.double().softmax(-1), draft.double().softmax(-1)
    probabilities, told = p.float(), (draft / told_temperature).softmax(-1)
    beta = torch.minimum(p, q).sum(-1)
    state, difference, accepted = torch.zeros(texts, dtype=torch.int64), [], 0
    for number in range(rounds // texts):
        here, tokens, seen = state, [], []
        for j in range(k):
            seen.append(here)
            offset = (k + 1) * number + j
            tokens.append(sdo.sample(draft[here], seed=3, offset=offset))
            here = (5 * here + tokens[-1] + 1) % states
        seen.append(here)
        tokens, seen = torch.stack(tokens, 1), torch.stack(seen, 1)
        n, token = sdo.accept(probabilities[seen], told[seen[:, :k]], tokens, g)
        at = (seen[:, :k], tokens)
        reached = torch.cat([torch.ones(texts, 1), (p[at] / q[at]).clamp(max=1)], 1).cumprod(1)
        expected = (reached[:, :k] * beta[seen[:, :k]]).sum(1)
        difference.append(n - expected)
        accepted += int(n.sum())
        state = (5 * seen.gather(1, n[:, None])[:, 0] + token + 1) % states
    difference = torch.cat(difference)
    count = len(difference)
    deviation = float(difference.std()) / count**0.5
    measured, apart = accepted / count, abs(float(difference.mean()))
    floor = (2 / torch.pi) ** 0.5 * deviation
    name = f"mean accepted length, V = {vocab}, k = {k}"
    wanted = measured - float(difference.mean())
    return Figure(name, count, measured, wanted, apart, floor, NORMAL * deviation, 2e-2)
