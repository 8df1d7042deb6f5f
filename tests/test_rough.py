# SPDX-License-Identifier: Apache-2.0
"""What float sums decide without a look at the law: drafts they judge (csrc/cpu/rough-inl.h), and
residual draws (csrc/cpu/excess-inl.h)."""

import subprocess
from pathlib import Path

import native_library

SOURCES = Path(__file__).resolve().parent / "vector"


def sure_and_wrong(what, folder, *flags):
    """How often floats were sure, and how often wrongly."""
    program = folder / what
    include = f"-I{native_library.ROOT / 'csrc'}"
    command = [*native_library.compiler(), "-std=c++17", "-O1", "-ffp-contract=off", include]
    sources = [
        str(SOURCES / f"{what}.cpp"),
        str(native_library.ROOT / "csrc" / "cpu" / "workspace.cpp"),
    ]
    subprocess.check_call([*command, *flags, *sources, "-o", str(program)])
    return map(int, subprocess.check_output([str(program)], text=True).split())


def test_no_draft_is_surely_judged_otherwise_than_by_the_law(tmp_path):
    sure, wrong = sure_and_wrong("rough", tmp_path)
    assert sure > 800
    assert wrong == 0


def test_a_sum_that_is_off_by_one_percent_is_noticed(tmp_path):
    _, wrong = sure_and_wrong("rough", tmp_path, "-DCARELESS")
    assert wrong > 50


def test_no_residual_draw_that_floats_tell_is_another_by_the_law(tmp_path):
    sure, wrong = sure_and_wrong("excess", tmp_path)
    assert sure > 3000
    assert wrong == 0


def test_a_total_that_is_off_by_a_16384th_is_noticed(tmp_path):
    _, wrong = sure_and_wrong("excess", tmp_path, "-DCARELESS")
    assert wrong > 100
