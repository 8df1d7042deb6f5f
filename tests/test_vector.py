# SPDX-License-Identifier: Apache-2.0
"""The vector vocabulary's fma, which x86-64 without FMA has to imitate, rounds once."""

import subprocess
from pathlib import Path

import native_library

SOURCE = Path(__file__).resolve().parent / "vector" / "fma.cpp"


def different_lanes(folder, *flags):
    program = folder / "fma"
    include = f"-I{native_library.ROOT / 'csrc'}"
    command = [*native_library.compiler(), "-std=c++17", "-O2", "-ffp-contract=off", include]
    subprocess.check_call([*command, *flags, str(SOURCE), "-o", str(program)])
    return int(subprocess.check_output([str(program)], text=True).split()[0])


def test_fma_rounds_once(tmp_path):
    assert different_lanes(tmp_path) == 0


def test_the_operands_would_show_a_second_rounding(tmp_path):
    assert different_lanes(tmp_path, "-DROUND_TWICE") > 0
