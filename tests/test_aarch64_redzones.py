# SPDX-License-Identifier: Apache-2.0
"""The neon target touches nothing but what it was given either: the cases of test_redzones.py, in
the same fenced memory, without sanitizers, under the emulator."""

import pytest
from aarch64 import kernels
from kernel_bits import programs
from made_or_skip import made_or_skip
from test_redzones import MAIN, OPS

CASES = 1000


@pytest.fixture(scope="module")
def command():
    return made_or_skip(lambda: kernels.on_aarch64(main=MAIN))


def run(command, *arguments):
    return programs.run(command, "neon", *arguments)


def test_every_target_of_aarch64_touches_only_its_own_and_gives_the_same_bits(command):
    result = run(command, "scalar,neon", 0, CASES)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("lie", ["longer-rows", "later-output"])
def test_a_kernel_that_reads_or_writes_one_element_too_far_is_noticed_on_aarch64(command, lie, op):
    result = run(command, "neon", 0, 100, lie, op)
    assert result.returncode == 1
    assert "case " in result.stderr
