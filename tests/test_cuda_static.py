# SPDX-License-Identifier: Apache-2.0
"""What the machine code of the CUDA kernels proves without a GPU, and that the proof can fail."""

import functools
import os
import re

import cuda_toolkit
import native_library
import pytest
from cuda_static import compile as toolchain
from cuda_static import kernels, sass
from cuda_static.kernels import CARDS, KERNELS, PASS_LIST, PASSES

CUDA = native_library.ROOT / "csrc" / "cuda"
FIXTURES = native_library.ROOT / "tests" / "cuda_static" / "fixtures"
ARCHITECTURES = toolchain.architectures()
STEMS = {kernel: stem for stem, names in KERNELS.items() for kernel in names}
OTHERS = [kernel for kernel in STEMS if kernel not in PASSES]
# A caller's uniform becomes an integer in the loop over a sequence's drafts.
ONCE_A_DRAFT = tuple(
    f"{judges} < fractions{part}"
    for judges in ("accepts_draft", "find_reach", "passes")
    for part in ("", " < fraction_of")
)
FAULTS = ("call", "mufu", "fp64", "cas", "local memory")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def tools():
    missing = toolchain.missing()
    if missing and "CI" in os.environ:
        pytest.fail(f"missing: {', '.join(missing)}")
    if missing:
        pytest.skip(f"no {' and no '.join(missing)}: no machine code to look at")


@pytest.fixture(scope="module")
def compiled(tools):
    sources = [CUDA / f"{stem}.cu" for stem in KERNELS]
    return toolchain.compile_all(sources, ARCHITECTURES)


@pytest.fixture(scope="module")
def kernel(compiled):
    @functools.cache
    def of_source(stem, architecture):
        return kernels.kernels_of(compiled[CUDA / f"{stem}.cu", architecture], KERNELS[stem])

    return lambda name, architecture: of_source(STEMS[name], architecture)[name]


@functools.cache
def planted(file, names):
    return kernels.kernels_of(toolchain.compile_one(FIXTURES / f"{file}.cu", 80), names)


def fault(name):
    names = (
        "clean",
        "stack",
        "spill",
        "root",
        "exponential",
        "double",
        "double_once",
        "cas",
        "call",
    )
    return planted("faults", tuple(f"{each}_kernel" for each in names))[f"{name}_kernel"]


def described(instructions):
    """For the message of a failure."""
    return [f"{each.opcode} {each.target or ''} in {kernels.where(each)}" for each in instructions]


def test_every_kernel_of_ours_is_looked_at():
    text = "".join(path.read_text() for path in CUDA.glob("*.cu*"))
    found = re.findall(r"\b(\w+_kernel)\(const __grid_constant__", text)
    assert sorted(found) == sorted(STEMS)
    assert text.count("__global__") == len(found)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", STEMS)
def test_a_kernel_has_no_stack_and_does_not_spill(kernel, name, architecture):
    it = kernel(name, architecture)
    stack = (it.resources.stack, it.resources.spill_stores, it.resources.spill_loads)
    assert stack == (0, 0, 0), described(kernels.faults(it)["local memory"])
    assert described(kernels.faults(it)["local memory"]) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_over_all_tokens_has_no_slow_instruction(kernel, name, architecture):
    """Doubles are compared once a block, to know the row's filters; a warp that has come apart may
    call a collective, one whose lanes are together does not."""
    it = kernel(name, architecture)
    found = kernels.faults(it)
    assert described(found["mufu"]) == []
    assert described(found["cas"]) == []
    assert described(kernels.in_loops(it, found["fp64"])) == []
    assert described(kernels.of_a_warp_together(it, found["call"])) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", OTHERS)
def test_a_kernel_of_rows_has_no_double_in_a_loop_over_tokens(kernel, name, architecture):
    it = kernel(name, architecture)
    found = kernels.faults(it)
    assert described(found["mufu"]) == []
    assert described(found["cas"]) == []
    inside = kernels.in_loops(it, found["fp64"])
    assert [each for each in described(inside) if not each.endswith(ONCE_A_DRAFT)] == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", OTHERS)
def test_a_warp_calls_nothing_but_collectives_when_it_has_come_apart(kernel, name, architecture):
    it = kernel(name, architecture)
    calls = kernels.faults(it)["call"]
    assert described(calls) == described(kernels.of_warp_collectives(calls))
    assert described(kernels.of_a_warp_together(it, calls)) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("a_pass", [each for each in PASS_LIST if each.budget], ids=str)
def test_instructions_a_token_do_not_grow(kernel, a_pass, architecture):
    counts = kernels.instructions_a_token(kernel(a_pass.kernel, architecture).function, a_pass)
    parts, _ = a_pass.budget
    figures = {part: dict(pipes) for part, pipes in counts.items()}
    assert all(part in counts for part in parts), figures
    # Less than half of it would not be progress, but instructions whose part is no longer known.
    assert a_pass.most / 2 <= kernels.total(counts, parts) <= a_pass.most, figures


@pytest.mark.parametrize("card", CARDS, ids=str)
@pytest.mark.parametrize(
    "name, rows", [("scan_kernel", 1), ("mass_kernel", 1), ("pair_kernel", 2), ("write_kernel", 1)]
)
def test_enough_bytes_of_float32_rows_are_in_flight(kernel, name, rows, card):
    resources = kernel(name, card.architecture).resources
    in_flight = rows * kernels.bytes_in_flight(resources, card.architecture, 4)
    assert in_flight >= card.need


def test_each_planted_fault_is_found_and_no_other():
    wanted = {
        "clean": [],
        "stack": ["local memory"],
        "spill": ["local memory"],
        "root": ["call", "mufu"],  # what follows the approximation is in a function of its own
        "exponential": ["mufu"],
        "double": ["fp64"],
        "double_once": ["fp64"],
        "cas": ["cas"],
        "call": ["call"],
    }
    for name, what in wanted.items():
        found = kernels.faults(fault(name))
        assert set(found) == set(FAULTS)
        assert [each for each in FAULTS if found[each]] == what, name


def test_a_spill_and_a_stack_are_told_apart():
    assert fault("spill").resources.spill_stores > 0
    assert fault("stack").resources.stack > 0
    assert fault("stack").resources.spill_stores == 0
    assert fault("clean").resources.stack == 0


def test_a_double_in_a_loop_is_told_from_one_outside():
    for name, inside in (("double", True), ("double_once", False)):
        it = fault(name)
        assert bool(kernels.in_loops(it, kernels.faults(it)["fp64"])) == inside


def test_a_call_of_a_function_is_no_collective_and_is_come_to():
    it = fault("call")
    calls = kernels.faults(it)["call"]
    assert kernels.of_warp_collectives(calls) == []
    assert kernels.of_a_warp_together(it, calls) == calls


def test_instructions_a_token_are_counted_by_part_and_pipe():
    names = ("once_kernel", "nine_times_kernel", "rarely_more_kernel", "ends_early_kernel")
    once, nine, rarely, early = (planted("tokens", names)[name].function for name in names)
    parts = {"times": "product"}

    def product(function, rare=(), never=()):
        a_pass = kernels.Pass("", "", parts, rare, never)
        return kernels.instructions_a_token(function, a_pass)["product"]

    assert product(once) == {"fma": 1}
    assert product(nine) == {"fma": 9}
    assert product(rarely)["fma"] == 41
    assert product(rarely, rare=("rarely",))["fma"] == 1
    assert product(early)["fma"] == 10
    assert product(early, never=("second_half",))["fma"] == 1


def test_blocks_on_an_sm_are_limited_by_each_of_its_resources():
    def blocks(registers, shared, architecture=80, threads=256):
        resources = toolchain.Resources(registers, shared, 0, 0, 0)
        return kernels.resident_blocks(resources, architecture, threads)

    assert blocks(32, 0) == 8  # threads
    assert blocks(64, 0) == 4  # registers
    assert blocks(65, 0) == 3
    assert blocks(32, 40 << 10) == 4  # shared memory, 41 kB with the system's
    assert blocks(32, 0, 86) == 6
    assert blocks(32, 0, 80, 32) == 32  # blocks


def test_a_branch_written_as_a_call_is_no_call():
    def call(target):
        return sass.Instruction(0, "", "CALL.REL.NOINC", f"`({target})", ())

    assert not call(".L_x_110").is_call()
    assert call("$__internal_0_$__cuda_sm70_shflsync_idx").is_call()
    assert call("_Z5apartfi").is_call()


def test_the_capabilities_are_those_that_limits_are_known_of():
    assert set(ARCHITECTURES) == set(kernels.LIMITS)
    assert cuda_toolkit.capabilities()
