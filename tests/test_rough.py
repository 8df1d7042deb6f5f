# SPDX-License-Identifier: Apache-2.0
"""Drafts that float sums accept without a look at the law (csrc/cpu/rough-inl.h)."""

import subprocess
from pathlib import Path

import native_library

SOURCE = Path(__file__).resolve().parent / "vector" / "rough.cpp"


def sure_and_wrong(folder, *flags):
    program = folder / "rough"
    include = f"-I{native_library.ROOT / 'csrc'}"
    command = [*native_library.compiler(), "-std=c++17", "-O1", "-ffp-contract=off", include]
    sources = [str(SOURCE), str(native_library.ROOT / "csrc" / "cpu" / "workspace.cpp")]
    subprocess.check_call([*command, *flags, *sources, "-o", str(program)])
    return map(int, subprocess.check_output([str(program)], text=True).split())


def test_no_draft_is_surely_accepted_that_the_law_rejects(tmp_path):
    sure, wrong = sure_and_wrong(tmp_path)
    assert sure > 200
    assert wrong == 0


def test_a_sum_that_is_off_by_one_percent_is_noticed(tmp_path):
    _, wrong = sure_and_wrong(tmp_path, "-DCARELESS")
    assert wrong > 50
