# SPDX-License-Identifier: Apache-2.0
"""The compiled accept keeps as many tokens as its rule does, on the average over all its uniforms
and all drafts: enumerated, in fractions. p = (1/3, 2/3) and q = (2/3, 1/3) in every context."""

from fractions import Fraction as F

import pytest
from spec_law import Setup, mean_accepted
from spec_law.compiled import accept_of
from spec_law.models import constant, sampled

TARGET, DRAFT = constant(F(1, 3), F(2, 3)), constant(F(2, 3), F(1, 3))
MEANS = {
    "token": [F(2, 3), F(10, 9), F(38, 27), F(130, 81)],
    "block": [F(2, 3), F(11, 9), F(5, 3), F(166, 81)],
}
GRID = {1: 12, 2: 9, 3: 4, 4: 3}  # lines a uniform: fewer for more of them


def accepted_by(package, method, k, draft=DRAFT):
    verifier = accept_of(package, grid=GRID[k], method=method)
    return mean_accepted(Setup(TARGET, sampled(draft, k), verifier))


@pytest.mark.parametrize("k", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", MEANS)
def test_the_mean_accepted_length_is_the_published_one(sdo, method, k):
    assert accepted_by(sdo, method, k) == MEANS[method][k - 1]


def test_another_draft_law_would_be_noticed(sdo):
    other = constant(F(2, 3) + F(1, 1000), F(1, 3) - F(1, 1000))
    assert accepted_by(sdo, "block", 2, other) != MEANS["block"][1]
