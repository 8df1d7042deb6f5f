# SPDX-License-Identifier: Apache-2.0
"""The avx512 target, run for real on any x86-64: the kernels alone, compiled with the flags they
ship with, in an emulated machine that has AVX-512. One boot asks everything."""

import native_library
import pytest
from avx512 import machine
from kernel_bits import programs
from kernel_bits.programs import differences
from made_or_skip import made_or_skip
from test_redzones import MAIN as REDZONES
from test_redzones import OPS
from test_vector import AVX2, build_vocabulary, by_operation, results

HEADER = "cpu/vec_avx512.h"
FLAGS = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-static"]
VOCABULARIES, FEWEST = "1,2,31,513", "2"
# Bochs 2.7 takes what lies from 2^63 to 2^64 for too large when it converts it to an unsigned
# integer, as the compiler does with the uniforms of accept in units of 2^-64.
UNIFORMS_BELOW = 0.5
CASES, CASES_OF_LIES = 200, 40
LIES = [(lie, op) for lie in ("longer-rows", "later-output") for op in OPS]


def kernels_that_round_twice(folder):
    """The kernels, where each fma is a product and a sum."""
    target = native_library.ROOT / "csrc" / "cpu" / "target_avx512.cpp"
    right = "_mm512_fmadd_ps(a.lanes, b.lanes, c.lanes)"
    wrong = "_mm512_add_ps(_mm512_mul_ps(a.lanes, b.lanes), c.lanes)"
    vocabulary = (native_library.ROOT / "csrc" / HEADER).read_text()
    assert vocabulary.count(right) == 1
    changed = folder / target.name
    include = f'#include "{HEADER}"\n'
    vocabulary = vocabulary.replace("#pragma once\n", "").replace(right, wrong)
    changed.write_text(target.read_text().replace(include, vocabulary))
    sources = [changed if source == target else source for source in programs.SOURCES]
    return programs.build(native_library.compiler(), sources=sources)


def commands(folder):
    """name -> CPU target, program and arguments."""
    (kernels,) = programs.on_this_machine()
    redzones = programs.build(native_library.compiler(), main=REDZONES)
    changed = folder / "changed"
    changed.mkdir()
    vocabulary = build_vocabulary(folder, HEADER, *FLAGS)
    other_vocabulary = build_vocabulary(changed, HEADER, *FLAGS, "-DOTHER_OPERAND")
    other_vocabulary = other_vocabulary.rename(changed / "other_operand")
    return {
        "refusal": ("none", kernels),
        "best": ("", redzones),
        "kernels": ("avx512", kernels, VOCABULARIES, UNIFORMS_BELOW),
        "changed kernels": ("avx512", kernels_that_round_twice(changed), FEWEST, UNIFORMS_BELOW),
        "vocabulary": ("", vocabulary),
        "changed vocabulary": ("", other_vocabulary),
        "redzones": ("", redzones, "avx512", 0, CASES),
        **{lie: ("", redzones, "avx512", 0, CASES_OF_LIES, *lie) for lie in LIES},
    }


def ask_all(folder):
    machine.need_tools()
    asked = commands(folder)
    return dict(zip(asked, machine.run(folder, asked.values())))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """name -> status and output of each command, all in one boot."""
    return made_or_skip(ask_all, tmp_path_factory.mktemp("avx512"))


@pytest.fixture(scope="module")
def output(found):
    """name -> output of a command that ended well."""

    def of(name):
        status, printed = found[name]
        assert status == 0, printed[-2000:]
        return printed

    return of


@pytest.fixture(scope="module")
def wanted(found):
    """What the scalar target of this machine gives."""
    return programs.answers(programs.on_this_machine(), "scalar", VOCABULARIES, UNIFORMS_BELOW)


@pytest.fixture(scope="module")
def plain(found, tmp_path_factory):
    return results(tmp_path_factory.mktemp("plain"), "cpu/vec_generic.h")


def test_avx512_is_the_best_target_of_the_emulated_machine(found, output):
    assert programs.named_targets(found["refusal"][1]) == ["avx512", "avx2", "scalar"]
    assert output("best").strip() == "avx512"


def test_avx512_gives_the_bits_of_plain_cpp(output, wanted):
    assert differences(programs.by_question(output("kernels"), "avx512"), wanted) == []


def test_the_questions_end_a_draft_at_every_position(wanted):
    assert min(int(wanted[f"accepted {position}"]) for position in range(4)) > 500


def test_kernels_whose_fma_rounds_twice_are_noticed(output, wanted):
    changed = programs.by_question(output("changed kernels"), "avx512")
    shared = {question: wanted[question] for question in changed if "accepted" not in question}
    changed = {question: changed[question] for question in shared}
    assert differences(changed, shared) != []


def test_every_avx512_operation_gives_the_results_of_plain_cpp(output, plain):
    assert len(plain) >= 30
    assert by_operation(output("vocabulary")) == plain


def test_an_avx512_operation_that_treats_nan_otherwise_is_noticed(output, plain):
    changed = by_operation(output("changed vocabulary"))
    assert {name for name in plain if plain[name] != changed[name]} == {"larger_of(a, b)"}


def test_avx512_touches_only_its_own(output):
    assert output("redzones")


@pytest.mark.parametrize("lie, op", LIES)
def test_a_kernel_that_reads_or_writes_one_element_too_far_is_noticed_on_avx512(found, lie, op):
    status, printed = found[lie, op]
    assert status == 1
    assert "case " in printed
