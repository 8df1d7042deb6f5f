# SPDX-License-Identifier: Apache-2.0
"""The stand-in CUDA runtime: what a GPU would not forgive is found, and what is right passes.

Each claim but the first is made of the probe of cuda_emulator/fixtures, which makes one mistake.
"""

import ctypes
import os
import re

import cuda_toolkit
import pytest
import torch

if cuda_toolkit.nvcc() is None and not os.environ.get("CI"):
    pytest.skip("no nvcc: CUDA kernels cannot be compiled", allow_module_level=True)

from cuda_emulator import build, library
from cuda_emulator.library import EmulatorViolation

ROWS, COLUMNS = 3, 1000


def mistakes():
    """The probe's mistakes by their names in probe.h."""
    header = (build.HERE / "fixtures" / "probe.h").read_text()
    names = re.search(r"enum Mistake .*?\{(.*?)\}", header, re.DOTALL)[1]
    names = re.sub(r"//.*", "", names)
    return {name.strip(): i for i, name in enumerate(names.split(",")) if name.strip()}


MISTAKES = mistakes()


@pytest.fixture(scope="module")
def probe():
    return library.load("8.0", build.probe())


def scale(probe, mistake="kNone", x=None):
    if x is None:
        x = torch.arange(ROWS * COLUMNS, dtype=torch.float32).view(ROWS, COLUMNS)
    return probe.ops.scale(x, MISTAKES[mistake])


@pytest.mark.parametrize("architecture", library.ARCHITECTURES)
def test_a_right_library_passes(architecture):
    probe = library.load(architecture, build.probe())
    x = torch.randn(ROWS, COLUMNS)
    assert torch.equal(scale(probe, x=x), 2 * x)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_schedule_gives_the_same(probe, seed):
    x = torch.randn(ROWS, COLUMNS)
    probe.configure(seed)
    try:
        assert torch.equal(scale(probe, x=x), 2 * x)
    finally:
        probe.configure()


@pytest.mark.parametrize(
    "mistake, text",
    [
        ("kReadsBeyondTheInput", r"\bx\b"),
        ("kWritesBeyondTheOutput", "allocated"),
        ("kOverrunsABuffer", "workspace buffer"),
        ("kWritesToTheInput", r"\bx\b"),
        ("kReadsWhatNobodyWrote", "workspace buffer"),
        ("kLeavesOutputUnwritten", "of result 0, 3 elements were never written"),
        ("kSynchronises", "cudaStreamSynchronize cannot be captured"),
        ("kAllocates", "cudaMalloc cannot be captured"),
        ("kOtherStream", "not on the caller's stream"),
        ("kLeavesAnError", "left behind: invalid configuration"),
        ("kNoDeviceGuard", "no device guard is held"),
        ("kHostReadsTheInput", "the host reads device memory: byte 0 of x"),
        ("kHostWritesTheOutput", "the host writes device memory: byte 0 of allocated"),
        ("kFillsBeyondTheWorkspace", "cudaMemsetAsync: 16 bytes"),
        ("kBuffersOverlap", "overlaps one of 12000"),
    ],
)
def test_a_mistake_is_found(probe, mistake, text):
    with pytest.raises(EmulatorViolation, match=text):
        scale(probe, mistake)


@pytest.mark.parametrize(
    "mistake, text",
    [
        ("kTooManyThreads", "invalid configuration"),
        ("kMoreThreadsThanLaunchBounds", "invalid argument"),
        ("kEmptyGrid", "invalid configuration"),
        ("kTooTallGrid", "invalid configuration"),
        ("kMoreSharedMemoryThanAsked", "invalid argument"),
    ],
)
def test_a_launch_beyond_the_limits_is_refused(probe, mistake, text):
    with pytest.raises(RuntimeError, match=text) as raised:
        scale(probe, mistake)
    assert not isinstance(raised.value, EmulatorViolation)


@pytest.mark.parametrize("architecture, fits", [("8.0", True), ("8.6", False), ("9.0", True)])
def test_each_gpu_has_its_own_shared_memory(architecture, fits):
    probe = library.load(architecture, build.probe())
    if fits:
        scale(probe, "kTooMuchSharedMemory")
    else:
        with pytest.raises(RuntimeError, match="invalid argument"):
            scale(probe, "kTooMuchSharedMemory")


def test_every_mistake_of_the_probe_is_tested():
    with open(__file__) as file:
        text = file.read()
    assert [name for name in MISTAKES if f'"{name}"' not in text] == []


def test_a_mistake_does_not_outlive_its_call(probe):
    with pytest.raises(EmulatorViolation):
        scale(probe, "kWritesBeyondTheOutput")
    scale(probe)


@pytest.mark.parametrize("place, text", [(-1, "before byte 0"), (12, "at or beyond byte 12")])
def test_a_damaged_redzone_is_found(probe, place, text):
    x = probe.tensor(torch.ones(3))
    ctypes.memset(x.data_ptr() + place, 0, 1)
    with pytest.raises(EmulatorViolation, match=f"{text} of input"):
        scale(probe)
    scale(probe)


def test_the_host_may_read_device_memory_between_calls(probe):
    x = probe.tensor(torch.ones(3))
    scale(probe)
    assert x.tolist() == [1, 1, 1]


# ---- Arguments ----


def test_strides_and_alignment_of_arguments_are_kept(probe):
    x = torch.randn(ROWS, COLUMNS + 5)[:, 3:-2]
    copy = probe.tensor(x)
    assert torch.equal(copy, x)
    assert copy.stride() == x.stride()
    assert copy.data_ptr() % library.ALIGNMENT == 3 * x.itemsize
    assert torch.equal(scale(probe, x=x), 2 * x)


def test_a_row_may_be_shared(probe):
    x = torch.randn(1, COLUMNS).expand(ROWS, COLUMNS)
    assert probe.tensor(x).stride() == (0, 1)
    assert torch.equal(scale(probe, x=x), 2 * x)


def test_what_lies_between_rows_is_out_of_bounds(probe):
    x = torch.randn(ROWS, COLUMNS + 5)[:, :COLUMNS]
    with pytest.raises(EmulatorViolation, match="x at byte"):
        scale(probe, "kReadsBeyondTheInput", x)


def test_arguments_are_left_alone(probe):
    x = torch.ones(ROWS, COLUMNS)
    with pytest.raises(EmulatorViolation):
        scale(probe, "kWritesToTheInput", x)
    assert torch.equal(x, torch.ones(ROWS, COLUMNS))


def test_an_empty_argument_passes(probe):
    with pytest.raises(RuntimeError, match="invalid configuration"):
        scale(probe, x=torch.empty(0, COLUMNS))


# ---- GPUs ----


def test_without_a_gpu_the_library_says_so():
    with pytest.raises(RuntimeError, match="no CUDA-capable device is detected"):
        scale(library.load(None, build.probe()))


def test_an_old_gpu_is_refused_by_the_library():
    with pytest.raises(RuntimeError, match="wanted compute capability 8.0"):
        scale(library.load("7.5", build.probe()))


# ---- Counters ----


def test_launches_and_bytes_are_counted(probe):
    probe.reset_counters()
    scale(probe)
    counters = probe.counters()
    names = [launch.kernel for launch in counters.launches]
    assert names[0] == "cudaMemsetAsync"
    assert ["double_rows" in names[1], "store_rows" in names[2]] == [True, True]
    assert [launch.grid for launch in counters.launches[1:]] == [(ROWS, 1, 1)] * 2
    assert counters.launches[1].block == (256, 1, 1)
    assert counters.bytes_read["x"] == ROWS * COLUMNS * 4
    assert counters.bytes_written["allocated"] == ROWS * COLUMNS * 4
    assert counters.instructions > 0
    probe.reset_counters()
    assert probe.counters().launches == []
    assert probe.counters().bytes_read.get("x", 0) == 0


# ---- What PTX says of a kernel ----


def test_launch_bounds_and_shared_memory_are_read_from_ptx():
    ptx = """
.shared .align 4 .b8 outer[64];
.extern .shared .align 16 .b8 dynamic[];
.visible .entry first(
	.param .u64 first_param_0
)
.maxntid 32, 2, 1
{
	.shared .align 4 .b8 inner[100];
	st.shared.u32 [outer], %r1;
}
.entry second(
	.param .u64 second_param_0
)
{
	st.shared.u32 [dynamic], %r1;
}
"""
    assert list(build.kernels_of(ptx)) == [
        build.Kernel("first", 64, 164),
        build.Kernel("second", 1024, 0),
    ]
