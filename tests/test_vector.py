# SPDX-License-Identifier: Apache-2.0
"""The vector vocabularies: every target's gives what the one in plain C++ gives, whose fma, which
x86-64 without FMA has to imitate, rounds once."""

import platform
import subprocess
from pathlib import Path

import native_library
import pytest

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


AVX2 = "-mavx2 -mfma -mf16c -mbmi -mbmi2 -mpopcnt -mlzcnt".split()


def build_vocabulary(folder, header, *flags):
    """A program that prints a hash of what each operation of this vocabulary gives."""
    program = folder / Path(header).stem
    source = SOURCE.with_name("vocabulary.cpp")
    include = [f"-I{native_library.ROOT / 'csrc'}", f'-DVOCABULARY="{header}"']
    command = [*native_library.compiler(), "-std=c++17", "-O2", "-ffp-contract=off", *include]
    subprocess.check_call([*command, *flags, str(source), "-o", str(program)])
    return program


def by_operation(printed):
    """operation -> hash of its results."""
    return dict(line.rsplit(" ", 1) for line in printed.splitlines())


def results(folder, header, *flags):
    program = build_vocabulary(folder, header, *flags)
    return by_operation(subprocess.check_output([str(program)], text=True))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX2 is of x86-64")
def test_avx2_gives_the_results_of_plain_cpp(tmp_path):
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this machine has no AVX2")
    plain = results(tmp_path, "cpu/vec_generic.h")
    assert len(plain) >= 30
    assert results(tmp_path, "cpu/vec_avx2.h", *AVX2) == plain


def test_an_operation_that_treats_nan_otherwise_is_noticed(tmp_path):
    plain = results(tmp_path, "cpu/vec_generic.h")
    wrong = results(tmp_path, "cpu/vec_generic.h", "-DOTHER_OPERAND")
    assert {name for name in plain if plain[name] != wrong[name]} == {"larger_of(a, b)"}
