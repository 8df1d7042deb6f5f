# SPDX-License-Identifier: Apache-2.0
"""csrc/common/ decides every bit, so two compilations of it must agree on all of them, and with the
frozen hashes: the short form of tests/bits/compare.py."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from frozen_bits import HASHES

PATH = Path(__file__).resolve().parent / "bits" / "compare.py"
SPEC = importlib.util.spec_from_file_location("compare", PATH)
compare = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(compare)

CHUNKS = 4


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    return compare.BACKENDS["baseline"](tmp_path_factory.mktemp("bits"))


@pytest.fixture(scope="module")
def fused(tmp_path_factory):
    """The same code where the compiler may use FMA instructions for the fma that is written."""
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this machine has no AVX2")
    return compare.BACKENDS["avx2"](tmp_path_factory.mktemp("bits"))


def hashes(command, function):
    return compare.hashes(command, function, CHUNKS * compare.CHUNK)


def test_every_function_gives_the_frozen_bits(baseline):
    got = {function: hashes(baseline, function) for function in compare.names(baseline)}
    assert got == HASHES


def test_avx2_and_fma_give_the_frozen_bits(fused):
    assert {function: hashes(fused, function) for function in compare.names(fused)} == HASHES


def test_a_compiler_that_reorders_arithmetic_is_caught(tmp_path):
    careless = compare.compile_host(tmp_path, "careless", "g++", "-ffast-math")
    assert hashes(careless, "mass_of_weight") != HASHES["mass_of_weight"]


@pytest.mark.parametrize("function", ["gumbel_words", "gumbel_ends"])
def test_the_gumbel_keeps_the_bounds_that_prune(baseline, function):
    count = 1 << 22
    command = [*baseline, "extremes", function, "0", str(count)]
    least, greatest, unless_zero = map(float, subprocess.check_output(command).split())
    assert -3.4 < least
    assert greatest < 28.43
    assert unless_zero < 5.544
