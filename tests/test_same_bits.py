# SPDX-License-Identifier: Apache-2.0
"""csrc/common/ decides every bit, so two compilations of it must agree on all of them, and with the
frozen hashes: the short form of tests/bits/compare.py."""

import backends
import pytest
from frozen_bits import HASHES


def driver(name):
    try:
        return backends.BACKENDS[name]()
    except backends.Unavailable as reason:
        pytest.skip(str(reason))


def frozen_checks(driver, function):
    """(checks, hash) of as many checks as are frozen."""
    checks, _ = HASHES[function]
    return checks, *driver.lines("hashes", function, 0, 1, checks)


def test_the_bits_of_every_function_are_frozen():
    assert list(driver("baseline").lines("names")) == list(HASHES)


@pytest.mark.parametrize("name", ["baseline", "avx2"])
def test_every_function_gives_the_frozen_bits(name):
    built = driver(name)
    assert {function: frozen_checks(built, function) for function in HASHES} == HASHES


@pytest.mark.parametrize("function", ["gumbel", "exact_sum", "weight", "mass_of_weight"])
def test_a_compiler_that_reorders_arithmetic_is_caught(function):
    careless = backends.Driver(backends.host("careless", "-ffast-math"))
    assert frozen_checks(careless, function) != HASHES[function]


def test_the_gumbel_keeps_the_bound_of_its_coarse_byte():
    bounds = [line.split() for line in driver("baseline").lines("bounds")]
    assert len(bounds) == 256
    assert all(float(greatest) < float(bound) for greatest, bound in bounds)


@pytest.mark.parametrize("function", ["gumbel_words", "gumbel_ends"])
def test_the_gumbel_keeps_the_bounds_that_prune(function):
    lines = [line.split() for line in driver("baseline").lines("extremes", function, 0, 2**22)]
    (least, low), (greatest, high), (unless_zero, high_unless_zero) = (map(float, x) for x in lines)
    assert low < least
    assert greatest < high
    assert unless_zero < high_unless_zero
