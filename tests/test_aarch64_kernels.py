# SPDX-License-Identifier: Apache-2.0
"""aarch64 gives the bits of x86-64: the kernels alone, cross-compiled and run by an emulator, over
rows of every family, dtype, length and alignment, and all that the ops are told."""

import backends
import pytest
from aarch64 import kernels
from frozen_bits import HASHES
from kernel_bits import programs
from kernel_bits.programs import differences
from made_or_skip import made_or_skip

SHORT = "1,2,31,511,512,513"  # the vocabularies of a short run


@pytest.fixture(scope="module")
def aarch64():
    return made_or_skip(kernels.on_aarch64)


@pytest.fixture(scope="module")
def here():
    return programs.on_this_machine()


@pytest.fixture(scope="module")
def wanted(here):
    """What the scalar target of this machine gives."""
    return programs.answers(here, "scalar")


@pytest.fixture(scope="module")
def wanted_of_short(here):
    return programs.answers(here, "scalar", SHORT)


def test_the_questions_end_a_draft_at_every_position(wanted):
    counts = [int(wanted[f"accepted {position}"]) for position in range(4)]
    assert min(counts) > 1000


def test_every_target_of_this_machine_gives_the_same_bits(here, wanted):
    for target in programs.targets(here):
        assert differences(programs.answers(here, target), wanted) == [], target


def test_neon_gives_the_bits_of_x86_64(aarch64, wanted):
    assert programs.targets(aarch64) == ["neon", "scalar"]
    assert differences(programs.answers(aarch64, "neon"), wanted) == []


def test_the_scalar_target_of_aarch64_gives_the_bits_of_x86_64(aarch64, wanted_of_short):
    assert differences(programs.answers(aarch64, "scalar", SHORT), wanted_of_short) == []


def test_an_aarch64_compiler_that_reorders_arithmetic_is_caught(wanted_of_short):
    careless = made_or_skip(kernels.on_aarch64, "-ffast-math")
    assert differences(programs.answers(careless, "neon", SHORT), wanted_of_short) != []


def test_every_pure_function_gives_the_frozen_bits_on_aarch64():
    driver = made_or_skip(backends.aarch64)
    found = {
        function: (checks, *driver.lines("hashes", function, 0, 1, checks))
        for function, (checks, _) in HASHES.items()
    }
    assert found == HASHES
