# SPDX-License-Identifier: Apache-2.0
"""Does a sample follow a law? Tests with a stated chance of a false alarm: Pearson's chi-square,
which sees each narrow bin, total variation, which is what people publish, and the share of one
event."""

from math import log

import torch
from spec_law.samples import divergence

ALPHA = 1e-6  # the chance that a correct sampler fails one check; 1e-4 for a hundred of them
DEVIATIONS = 4.7534  # of a normal variable, exceeded with probability ALPHA
EXPECTED = 25  # draws that a bin has by the law, at least


def chi_square_limit(freedom):
    """Exceeded with probability ALPHA (Wilson and Hilferty 1931; within 2 % from 3 degrees on)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + DEVIATIONS * spread**0.5) ** 3


def narrow_bins(counts, law):
    """(counts, expected) of bins as narrow as chance allows: a token each, and the rare ones, from
    the likeliest on, in bins that are expected EXPECTED times."""
    order = law.argsort(descending=True)
    expected = law[order].double() * counts.sum()
    before = expected.cumsum(0) - expected
    rare = expected < EXPECTED
    start = before[rare].min() if rare.any() else 0
    pool = ((before - start) / EXPECTED).long().clamp(min=0)
    first = int((~rare).sum())
    last_pool = max(int(expected[rare].sum() / EXPECTED) - 1, 0)
    bins = torch.where(rare, first + pool.clamp(max=last_pool), torch.arange(len(law)))
    zeros = torch.zeros(int(bins.max()) + 1).double()
    binned = zeros.index_add(0, bins, counts[order].double())
    return binned, zeros.index_add(0, bins, expected)


def chi_square(counts, law):
    """(statistic, degrees of freedom) of counts [n]; infinite if the impossible happened."""
    if counts[law == 0].any():
        return float("inf"), 1
    binned, expected = narrow_bins(counts[law > 0], law[law > 0])
    enough = expected >= EXPECTED / 2
    terms = (binned - expected)[enough] ** 2 / expected[enough]
    return float(terms.sum()), len(terms) - 1


def misfit(counts, law):
    """Chi-square statistic over its limit: above 1 the law is rejected. Tensors [n]."""
    statistic, freedom = chi_square(counts, law)
    return statistic / chi_square_limit(freedom)


def total_variation(counts, law):
    return float((counts.double() / counts.sum() - law).abs().sum() / 2)


def expected_total_variation(law, n):
    """The mean of the total variation between a law and n of its own draws, exactly: de Moivre's
    mean absolute deviation of a binomial variable, for every token."""
    p = law[(law > 0) & (law < 1)].double()
    k = (n * p).floor() + 1
    deviation = (
        k.log()
        + (torch.lgamma(torch.tensor(n + 1.0).double()) - torch.lgamma(k + 1))
        - torch.lgamma(n - k + 1)
        + k * p.log()
        + (n - k + 1) * torch.log1p(-p)
    )
    return float(deviation.exp().sum() / n)


def total_variation_limit(law, n):
    """Exceeded with probability ALPHA at most: one draw moves it by 1 / n (McDiarmid)."""
    return expected_total_variation(law, n) + (log(1 / ALPHA) / (2 * n)) ** 0.5


def binomial_limit(p, n, events=1, sides=(1, -1)):
    """How far a share of n draws may lie from p, above (1) and below (-1): the d with
    n KL(p + d, p) = log(2 / alpha)."""
    bound = log(2 * events / ALPHA) / n
    low, high = 0.0, 1.0
    for _ in range(60):
        d = (low + high) / 2
        reached = [divergence(min(max(p + side * d, 0), 1), p) for side in sides]
        low, high = (d, high) if min(reached) < bound else (low, d)
    return high
