# SPDX-License-Identifier: Apache-2.0
"""The emulator finds each kind of bug, lets its right twin pass, and computes what the ISA says."""

import ctypes
import os
import struct

import numpy as np
import pytest
from cuda_emulator import compile as toolchain
from cuda_emulator import device, expected

# name: what the emulator says of it, and the number of blocks
BOUNDS = {
    "read_past_global": ("global access of 4 bytes out of bounds", 1),
    "write_before_global": ("global access of 4 bytes out of bounds", 1),
    "write_past_dynamic_shared": ("shared access of 4 bytes out of bounds", 1),
    "overrun_into_next_array": ("shared access of 4 bytes out of bounds", 1),
    "misaligned_global": ("misaligned access of 16 bytes", 1),
    "misaligned_shared": ("misaligned access of 8 bytes", 1),
    "write_to_input": ("write to read-only memory", 1),
    "read_uninitialized_shared": ("read of uninitialized shared memory", 1),
    "read_undefined_workspace": ("read of undefined global memory", 1),
}
BARRIERS = {
    "barrier_in_divergent_branch": ("some threads wait at a barrier that others", 1),
    "barrier_for_some_warps": ("some threads wait at a barrier that others", 1),
    "two_barrier_sites": ("wait at different barriers", 1),
    "early_exit": ("some threads wait at a barrier that others", 1),
    "shuffle_names_diverged_lanes": ("deadlock|the mask names lanes that have exited", 1),
    "lane_outside_its_mask": ("lanes outside their own mask: 16 17", 1),
    "ballot_outside_its_mask": ("lanes outside their own mask: 31", 1),
    "shuffle_from_inactive_lane": ("reads the value of inactive lane 20", 1),
    "syncwarp_names_exited_lanes": ("the mask names lanes that have exited: 16 17", 1),
    "two_shuffle_sites": ("deadlock", 1),
    "endless_loop": ("endless loop", 1),
    "trap": ("trap", 1),
}
RACES = {
    "read_after_write": ("race in shared memory", 1),
    "write_after_read": ("race in shared memory", 1),
    "write_after_write": ("race in shared memory", 1),
    "increment_without_atomic": ("race in shared memory", 1),
    "warp_without_syncwarp": ("race in shared memory", 1),
    "bytes_side_by_side": ("race in shared memory", 1),
    "global_without_barrier": ("race in global memory", 1),
    "slot_of_another_block": ("race in global memory.* of block", 4),
    "reads_what_the_next_block_writes": ("race in global memory.* of block", 4),
    "odd_rows_of_halves": ("race in global memory.* of block", 4),
    "counter_without_atomic": ("race in global memory.* of block", 4),
    "plain_read_of_atomic": ("race in global memory.* of block", 4),
}
BUGS = {"bounds": BOUNDS, "barriers": BARRIERS, "races": RACES}
EVERY_BUG = [(file, name) for file, bugs in BUGS.items() for name in bugs]
BAD_TICKETS = [
    "fence_before_ticket_missing",
    "fence_after_ticket_missing",
    "barrier_before_fence_missing",
    "ticket_without_release",
    "ticket_without_acquire",
    "ticket_relaxed",
    "barrier_before_ticket_missing",
]
SEEDS = range(12)


def module(source, *flags, arch=80):
    """A .cu of the emulator's, compiled. Without a compiler: skipped, but in CI failed."""
    try:
        return device.Module(toolchain.HERE / source, arch, *flags)
    except toolchain.Unavailable as unavailable:
        if "CI" in os.environ:
            pytest.fail(str(unavailable))
        pytest.skip(str(unavailable))


@pytest.fixture(scope="module")
def bugs():
    return {file: module(f"bugs/{file}.cu") for file in [*BUGS, "communication"]}


def run(kernels, kernel, blocks=1, seed=0, checks=device.CHECK_EVERYTHING):
    """A kernel of bugs/ on fresh memory; gives its y."""
    x = np.arange(256 * blocks, dtype=np.float32) % 97
    y, words = np.zeros_like(x), np.zeros(16, np.uint32)
    settings = kernels.configured(seed, checks, budget=30_000)
    with settings, kernels.memory(x=x, y=y, words=words):
        kernels.core.emulator_make_read_only(device.argument(x))
        if "undefined" in kernel:
            size = device.Count(y.nbytes)
            kernels.core.emulator_mark_undefined(device.argument(y), size)
        kernels.launch(kernel, blocks, 256, x, y, words, 256, shared=1024)
    return x, y


@pytest.mark.parametrize(("file", "name"), EVERY_BUG, ids=[name for _, name in EVERY_BUG])
def test_a_planted_bug_is_found_and_its_right_twin_passes(bugs, file, name):
    message, blocks = BUGS[file][name]
    for seed in range(4):
        run(bugs[file], f"{name}_right", blocks, seed)
        with pytest.raises(device.Violation, match=message):
            run(bugs[file], f"{name}_bug", blocks, seed)


def test_a_violation_says_where_it_happened(bugs):
    with pytest.raises(device.Violation) as found:
        run(bugs["bounds"], "read_past_global_bug")
    for part in (
        "read_past_global_bug: block (0, 0, 0), warp 7",
        "thread 255",
        "0 bytes past",
        "'x'",
    ):
        assert part in str(found.value)


@pytest.mark.parametrize("name", ["ticket_by_fences_right", "ticket_by_atomic_right"])
def test_the_last_block_sees_what_the_others_released(bugs, name):
    for seed in SEEDS:
        x, y = run(bugs["communication"], name, 4, seed)
        assert np.array_equal(y[:256], x.reshape(4, 256)[:, ::-1].sum(0))


@pytest.mark.parametrize("name", BAD_TICKETS)
def test_a_ticket_with_a_part_missing_is_a_race(bugs, name):
    for seed in SEEDS:
        with pytest.raises(device.Violation, match="race in global memory"):
            run(bugs["communication"], name, 4, seed)


def test_a_non_coherent_load_of_what_was_written_is_found_although_ordered(bugs):
    for seed in SEEDS:
        with pytest.raises(device.Violation, match="non-coherent load"):
            run(bugs["communication"], "non_coherent_load", 4, seed)


def test_a_flag_without_release_is_found(bugs):
    found = 0
    for seed in SEEDS:
        run(bugs["communication"], "flag_right", 4, seed)
        try:
            run(bugs["communication"], "flag_bug", 4, seed)
        except device.Violation as violation:
            assert "race in global memory" in str(violation)
            found += 1
    assert found  # by those schedules in which the flag is seen


def test_blocks_that_wait_for_each_other_are_interleaved(bugs):
    for seed in range(1, 8):
        _, y = run(bugs["communication"], "turns_right", 4, seed)
        assert y[0] == 4
        with pytest.raises(device.Violation, match="endless loop"):
            run(bugs["communication"], "turns_bug", 4, seed)


def test_checks_can_be_switched_off(bugs):
    run(bugs["races"], "read_after_write_bug", checks=0)
    without_warps = device.CHECK_EVERYTHING & ~device.WARP_RACES
    run(bugs["races"], "warp_without_syncwarp_bug", checks=without_warps)
    with pytest.raises(device.Violation):
        run(bugs["bounds"], "read_past_global_bug", checks=0)


# ---- What instructions compute ----


@pytest.fixture(scope="module", params=[80, 90])
def semantics(request):
    return module("semantics.cu", "-fmad=false", arch=request.param)


def compute(kernels, kernel, *inputs, columns=1, dtype=np.uint32, count=expected.COUNT, more=()):
    """The kernel's output, a row a thread."""
    y = np.zeros((count, columns), dtype)
    arrays = [*inputs, y, *more]
    named = {f"array{n}": array for n, array in enumerate(arrays)}
    with kernels.configured(seed=3), kernels.memory(**named):
        kernels.launch(kernel, count // 128, 128, *arrays)
    return y


def test_halves_are_exact_both_ways(semantics):
    halves = np.arange(65536).astype(np.uint16)
    found = compute(semantics, "half_to_float", halves, count=65536)[:, 0]
    assert np.array_equal(found, expected.float_bits(expected.half_to_float()))
    values = np.concatenate([found.view(np.float32), expected.floats(0), expected.floats(1)])
    narrowed = compute(semantics, "float_to_half", values, dtype=np.uint16, count=len(values))
    with np.errstate(over="ignore"):
        want = np.where(np.isnan(values), 0x7FFF, values.astype(np.float16).view(np.uint16))
    assert np.array_equal(narrowed[:, 0], want)


def test_conversions_round_and_clamp(semantics):
    x, wide = expected.floats(0), np.zeros(expected.COUNT, np.int64)
    found = compute(semantics, "float_to_integers", x, columns=4, more=[wide])
    assert np.array_equal(found, expected.float_to_int32s(x))
    assert np.array_equal(wide, expected.float_to_int64(x))
    words = expected.words(0)
    found = compute(semantics, "integers_to_float", words, columns=3, dtype=np.float32)
    assert np.array_equal(found, expected.integers_to_float(words))


def test_float_arithmetic_is_ieee_with_subnormals_and_one_nan(semantics):
    a, b = expected.floats(0), expected.floats(1)
    found = compute(semantics, "float_arithmetic", a, b, columns=8)
    assert np.array_equal(found, expected.float_arithmetic(a, b))
    found = compute(semantics, "float_comparisons", a, b)
    assert np.array_equal(found[:, 0], expected.float_comparisons(a, b))


def test_double_arithmetic_is_ieee(semantics):
    random = np.random.default_rng(2)
    a, b = random.standard_normal((2, expected.COUNT)) * 10.0 ** random.integers(-9, 9, (2, 1))
    found = compute(semantics, "double_arithmetic", a, b, columns=5, dtype=np.float64)
    assert np.array_equal(found, expected.double_arithmetic(a, b), equal_nan=True)


def test_bits_are_moved_as_the_isa_says(semantics):
    a, b = expected.words(0), expected.words(1)
    assert np.array_equal(compute(semantics, "bits", a, b, columns=12), expected.bits(a, b))


def test_wide_integers_are_exact(semantics):
    random = np.random.default_rng(3)
    a, b = random.integers(0, 2**64, (2, expected.COUNT), dtype=np.uint64)
    b[::3] >>= np.uint64(40)
    found = compute(semantics, "wide_integers", a, b, columns=6, dtype=np.uint64)
    assert np.array_equal(found, expected.wide_integers(a, b))


def test_warps_exchange_and_reduce(semantics):
    x = np.random.default_rng(4).integers(0, 2**16, expected.COUNT).astype(np.int32)
    found = compute(semantics, "warp", x, columns=10, dtype=np.int32)
    assert np.array_equal(found, expected.warp(x, 128))


def test_lanes_part_and_meet_again(semantics):
    x = np.random.default_rng(5).integers(0, 2**16, expected.COUNT).astype(np.int32)
    found = compute(semantics, "control", x, columns=2, dtype=np.int32)
    assert np.array_equal(found, expected.control(x))


def test_a_struct_parameter_is_read_by_address(semantics):
    out = np.zeros(32, np.int64)
    layout = struct.pack("=q6fdi4x", out.ctypes.data, 1, 2.5, 3, 4.75, 5, 6, 100.0, 3)
    with semantics.memory(out=out):
        params = (ctypes.c_char * len(layout)).from_buffer_copy(layout)
        semantics.launch("params", 1, 32, params, 2)
    assert out.tolist() == [2400, 3800] * 16


def test_accesses_are_counted_by_lane(bugs):
    kernels = bugs["races"]
    kernels.core.emulator_reset_counters()
    x, y = np.zeros(256, np.float32), np.zeros(256, np.float32)
    with kernels.memory(x=x, y=y):
        kernels.launch("read_after_write_right", 1, 256, x, y, None, 0)
        assert kernels.bytes(x) == (1024, 0)
        assert kernels.bytes(y) == (0, 1024)
    counters = kernels.counters("read_after_write_right")
    assert (counters.launches, counters.blocks, counters.barriers) == (1, 1, 2)
    assert (counters.global_bytes_read, counters.global_bytes_written) == (1024, 1024)
    assert 8 * 10 < counters.instructions < 8 * 60


def test_an_unsupported_instruction_is_named(tmp_path):
    source = tmp_path / "pair.cu"
    source.write_text('extern "C" __global__ void k() { asm volatile("barrier.sync 3, 64;"); }')
    with pytest.raises(RuntimeError, match=r"kernel k: `barrier.sync 3, 64` is not supported"):
        module(source)


def test_cub_sorts_scans_and_reduces():
    kernels = module("cub.cu")
    rows, columns = 6, 1000
    x = np.random.default_rng(6).standard_normal((rows, columns)).astype(np.float32)
    keys, scan, total = np.zeros_like(x), np.zeros_like(x), np.zeros(rows, np.float32)
    values = np.zeros(x.shape, np.int32)
    for seed in range(3):
        memory = kernels.memory(x=x, keys=keys, values=values, scan=scan, total=total)
        with kernels.configured(seed), memory:
            kernels.launch("sort_scan_sum", rows, 256, x, keys, values, scan, total, columns)
        order = np.argsort(-x, axis=1, kind="stable")
        assert np.array_equal(values, order)
        assert np.array_equal(keys, np.take_along_axis(x, order, 1))
        assert np.allclose(scan, np.cumsum(keys, axis=1, dtype=np.float64), atol=1e-3)
        assert np.allclose(total, x.sum(1, dtype=np.float64), atol=1e-3)
