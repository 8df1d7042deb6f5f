# SPDX-License-Identifier: Apache-2.0
"""The CPU kernels touch nothing but what they were given, and do nothing that C++ leaves undefined:
compiled with AddressSanitizer and UndefinedBehaviorSanitizer and run on random cases, each argument
in memory that is fenced on both sides (redzones/main.cpp).

The environment may set FUZZ_EXAMPLES, how many cases, and FUZZ_SEED, to run others than those of
every run (`make fuzz`).
"""

import os
import re
import subprocess

import native_library
import pytest
from kernel_bits import programs

MAIN = native_library.ROOT / "tests" / "redzones" / "main.cpp"
WORKSPACE = native_library.ROOT / "csrc" / "cpu" / "workspace.cpp"
SANITIZE = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
# Without optimisation, which takes a third of the time to compile and drops no access.
FLAGS = ["-O0", "-g1", *SANITIZE]

CASES = int(os.environ.get("FUZZ_EXAMPLES", 2000))
FIRST = int(os.environ.get("FUZZ_SEED") or 0) << 32
A_FEW = 60


def build(sources=programs.SOURCES):
    return programs.build(
        native_library.compiler(), *FLAGS, main=MAIN, link=SANITIZE, sources=sources
    )


@pytest.fixture(scope="module")
def program():
    return build()


@pytest.fixture(scope="module")
def targets(program):
    return ",".join(programs.targets([program]))


def run(program, targets, *arguments, fill=0):
    """Fresh memory is full of the byte `fill`."""
    options = f"max_malloc_fill_size={2**30}:malloc_fill_byte={fill}"
    return subprocess.run(
        [program, targets, *map(str, arguments)],
        env={**os.environ, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": "print_stacktrace=1"},
        capture_output=True,
        text=True,
        timeout=60 + CASES,
    )


@pytest.mark.slow
def test_every_target_touches_only_its_own_and_gives_the_same_bits(program, targets):
    assert "scalar" in targets
    hashes = []
    for fill in (0, 255):  # what memory held before changes nothing
        result = run(program, targets, FIRST, CASES // 2, fill=fill)
        assert result.returncode == 0, result.stderr[-3000:]
        hashes.append(result.stdout)
    assert hashes[0] == hashes[1]
    result = run(program, targets, FIRST + CASES // 2, CASES - CASES // 2)
    assert result.returncode == 0, result.stderr[-3000:]


OPS = ["sample", "filter_logits", "verify", "accept", "logprobs"]
LIES = [(lie, op) for lie in ("longer-rows", "later-output", "odd-address") for op in OPS]
LIES += [("longer-ids", op) for op in OPS[:3]]


@pytest.mark.parametrize("lie, op", LIES)
def test_a_kernel_that_reads_or_writes_one_element_too_far_is_noticed(program, lie, op):
    result = run(program, "scalar", 0, A_FEW, lie, op)
    assert result.returncode == 1
    noticed = "runtime error: .*misaligned" if lie == "odd-address" else "ERROR: AddressSanitizer"
    assert re.search(noticed, result.stderr)


def changed_workspace(folder, right, wrong):
    """A program of the kernels with another workspace.cpp."""
    text = WORKSPACE.read_text()
    assert text.count(right) == 1
    changed = folder / WORKSPACE.name
    changed.write_text(text.replace(right, wrong))
    return build([changed if source == WORKSPACE else source for source in programs.SOURCES])


@pytest.mark.parametrize(
    "piece", ["row.lane_max, tiles * kLanes", "row.patched, capacity", "row.patched_tile, tiles"]
)
def test_a_workspace_with_a_piece_too_short_is_noticed(tmp_path, piece):
    result = run(changed_workspace(tmp_path, piece, f"{piece} - 1"), "scalar", 0, A_FEW)
    assert result.returncode == 1
    assert "AddressSanitizer: use-after-poison" in result.stderr


def test_a_kernel_that_reads_what_nobody_wrote_is_noticed(program, tmp_path):
    cleared = "  std::memset(target.penalised, 0, sizeof(uint64_t) * size_t(capacity / 64));\n"
    forgetful = changed_workspace(tmp_path, cleared, "")
    expected, found = (run(each, "scalar", 0, A_FEW, fill=255) for each in (program, forgetful))
    assert expected.returncode == 0
    assert found.stdout != expected.stdout
