# SPDX-License-Identifier: Apache-2.0
"""The published figures of verification: first tokens, acceptance, accepted lengths."""

from typing import NamedTuple

import fit
import torch
from figures import Figure
from fit import binomial_limit

CHUNK = 2**16  # trials of one call
NORMAL = 4.8916  # |deviations| of a normal variable, exceeded with probability ALPHA


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


def first_token(run):
    law, n = run.p[0], run.count
    apart = fit.total_variation(run.first, law)
    floor, limit = fit.expected_total_variation(law, n), fit.total_variation_limit(law, n)
    name = "first token verified, total variation"
    return Figure(name, n, apart, 0.0, apart, floor, limit, 3.4e-3, "first_token")


def acceptance(run):
    beta, n = float(torch.minimum(run.p[0], run.q[0]).sum()), run.count
    share = float(run.lengths[1:].sum()) / n
    floor = (2 / torch.pi * beta * (1 - beta) / n) ** 0.5
    limit = binomial_limit(beta, n)
    name = "acceptance, against sum of min(p, q)"
    return Figure(name, n, share, beta, abs(share - beta), floor, limit, 4e-4, "acceptance")


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
    name = f"accepted length of {len(beta)} drafts, the length furthest from its law"
    apart = abs(measured - wanted)
    return Figure(name, n, measured, wanted, apart, floor, limit, 3e-4, "accepted_lengths")


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
    name = f"mean accepted length of {count} rounds, V = {vocab}, k = {k}"
    wanted, limit = measured - float(difference.mean()), NORMAL * deviation
    return Figure(name, count, measured, wanted, apart, floor, limit, 2e-2, "mean_accepted")
