# SPDX-License-Identifier: Apache-2.0
"""csrc/common/ decides every bit, so two compilations of it must agree on all of them, and with the
frozen hashes: the short form of tests/bits/compare.py."""

import sys
from pathlib import Path

import pytest
from frozen_bits import HASHES

sys.path.insert(0, str(Path(__file__).resolve().parent / "bits"))
import backends

CHUNKS, SIZE = 4, 2**16


def driver(name):
    try:
        return backends.BACKENDS[name]()
    except backends.Unavailable as reason:
        pytest.skip(str(reason))


def hashes(driver, function):
    return list(driver.lines("hashes", function, 0, CHUNKS, SIZE))


@pytest.mark.parametrize("name", ["baseline", "avx2"])
def test_every_function_gives_the_frozen_bits(name):
    built = driver(name)
    assert {function: hashes(built, function) for function in built.lines("names")} == HASHES


def test_a_compiler_that_reorders_arithmetic_is_caught(tmp_path):
    program = tmp_path / "careless"
    sources = [backends.HERE / "main.cpp", backends.HERE / "host.cpp"]
    backends.make(program, "g++", *backends.FLAGS, "-ffast-math", *sources)
    careless = hashes(backends.Driver(program), "mass_of_weight")
    assert careless != HASHES["mass_of_weight"]


@pytest.mark.parametrize("function", ["gumbel_words", "gumbel_ends"])
def test_the_gumbel_keeps_the_bounds_that_prune(function):
    lines = [line.split() for line in driver("baseline").lines("extremes", function, 0, 2**22)]
    (least, low), (greatest, high), (unless_zero, high_unless_zero) = (map(float, x) for x in lines)
    assert low < least
    assert greatest < high
    assert unless_zero < high_unless_zero
