# SPDX-License-Identifier: Apache-2.0
"""benchmarks/aarch64_report.py finds the loops it speaks of in the code that ships."""

import os
import shutil
import sys

import native_library
import pytest

sys.path.insert(0, str(native_library.ROOT / "benchmarks"))

import aarch64_loops  # noqa: E402
import aarch64_report  # noqa: E402


@pytest.fixture(scope="module")
def functions():
    if not shutil.which(aarch64_loops.COMPILER) and not os.environ.get("CI"):
        pytest.skip(f"no {aarch64_loops.COMPILER} on this machine")
    return aarch64_loops.assembly()


@pytest.mark.parametrize("wanted", aarch64_report.LOOPS, ids=lambda wanted: wanted.title)
def test_every_loop_of_the_report_is_in_the_assembly(functions, wanted):
    loops = aarch64_loops.loops_of(functions, wanted)
    assert any(wanted.tokens or aarch64_loops.floats_loaded(loop.body) for loop in loops)


def test_an_iteration_of_the_pass_for_the_largest_logit_loads_64_tokens(functions):
    """In float32; of 16 bits they are half as many registers."""
    loops = aarch64_loops.loops_of(functions, aarch64_report.LARGEST._replace(loads=None))
    assert {aarch64_loops.floats_loaded(loop.body) for loop in loops} == {64, 32}


def test_a_loop_that_the_source_has_not_is_refused(functions):
    gone = aarch64_report.LARGEST._replace(line="no such loop")
    with pytest.raises(SystemExit, match="no such loop"):
        aarch64_loops.loops_of(functions, gone)


def test_constants_are_no_tokens():
    lines = (
        "ldr\tq1, [x0], 32",
        "ldr\tq2, [x0, -16]",
        "ld1\t{v3.4s}, [x1]",
        "ldr\tq4, [sp, 64]",
        "ldr\tq5, [x2]",
    )
    body = [aarch64_loops.Instruction(line, "", 0) for line in (*lines, "add\tx1, x1, 16")]
    assert aarch64_loops.floats_loaded(body) == 12


def test_a_loop_within_a_loop_is_the_innermost():
    text = (".L1:", "add\tx0, x0, 1", ".L2:", "add\tx1, x1, 1", "bne\t.L2", "bne\t.L1")
    lines = [aarch64_loops.Instruction(line, "", 0) for line in text]
    (loop,) = aarch64_loops.innermost_loops("", lines)
    assert [each.text for each in loop.body] == ["add\tx1, x1, 1", "bne\t.L2"]
