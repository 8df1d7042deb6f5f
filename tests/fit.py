# SPDX-License-Identifier: Apache-2.0
"""Does a sample follow a law? Pearson's chi-square with a stated chance of a false alarm."""

ALPHA = 1e-6  # the chance that a correct sampler fails one check; 1e-4 for a hundred of them
DEVIATIONS = 4.7534  # of a normal variable, exceeded with probability ALPHA


def chi_square_limit(freedom):
    """Exceeded with probability ALPHA (Wilson and Hilferty 1931; within 2 % from 3 degrees on)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + DEVIATIONS * spread**0.5) ** 3


def misfit(counts, law):
    """Chi-square statistic over its limit: above 1 the law is rejected. Tensors [n].

    Categories expected fewer than 10 times are counted as one.
    """
    counts, expected = counts.double(), law.double() * counts.sum()
    impossible = law == 0
    if counts[impossible].any():
        return float("inf")
    rare = (expected < 10) & ~impossible
    many = ~rare & ~impossible
    terms = (counts[many] - expected[many]) ** 2 / expected[many]
    statistic, freedom = terms.sum(), many.sum() - 1
    if expected[rare].sum() >= 10:
        statistic += (counts[rare].sum() - expected[rare].sum()) ** 2 / expected[rare].sum()
        freedom += 1
    return float(statistic / chi_square_limit(freedom))
