# SPDX-License-Identifier: Apache-2.0
"""Times kernels alone: no Python, no op call and no torch between the clock's two readings."""

import ctypes
import statistics
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "packaging"))

import native_library  # noqa: E402

_DTYPES = [torch.float32, torch.float16, torch.bfloat16]  # in the order of common/dtype.h
_RUNS = 101


class _Rows(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int64),
        ("positions", ctypes.c_int64),
        ("vocab", ctypes.c_int64),
    ]


class _Filter(ctypes.Structure):
    _fields_ = [
        ("temperature", ctypes.c_double),
        ("top_k", ctypes.c_int64),
        ("top_p", ctypes.c_double),
        ("min_p", ctypes.c_double),
        ("penalty", ctypes.c_double),
        ("previous", ctypes.c_void_p),
        ("previous_count", ctypes.c_int64),
    ]


def library():
    """The clock with the kernels, compiled once for their sources."""
    sources = [*sorted((ROOT / "csrc" / "cpu").glob("*.cpp")), HERE / "clock.cpp"]
    texts = [path.read_text() for path in [*native_library.KERNEL_HEADERS, *sources]]
    path = ROOT / ".build" / "clock" / f"clock-{native_library.digest(*texts)}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = [flag for flag in native_library.FLAGS if not flag.startswith("-fvisibility")]
        command = [*native_library.compiler(), *flags, f"-I{ROOT / 'csrc'}", "-shared"]
        unfinished = path.with_suffix(".unfinished")
        subprocess.check_call([*command, *map(str, sources), "-o", str(unfinished)])
        unfinished.replace(path)
    return ctypes.CDLL(str(path))


def _address(tensor):
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _rows(tensor):
    """A contiguous [positions, V], whose last dimension is one row."""
    if tensor is None:
        return None
    positions = tensor.shape[0]
    return ctypes.byref(
        _Rows(tensor.data_ptr(), _DTYPES.index(tensor.dtype), positions, tensor.shape[-1])
    )


def _filter(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, previous=None):
    count = 0 if previous is None else previous.numel()
    return ctypes.byref(
        _Filter(temperature, top_k, top_p, min_p, repetition_penalty, _address(previous), count)
    )


class Clock:
    """Median microseconds of a kernel; `mean=True` where the time depends on the draw."""

    COUPLED_SEED = 0  # of every run by the coupled rule, so that a draft can agree with it

    def __init__(self, target="", runs=_RUNS):
        self._library = library()
        self._library.clock_target.restype = ctypes.c_char_p
        if not self._library.clock_use_target(target.encode()):
            raise ValueError(f"this machine has no target {target!r}")
        self.target = self._library.clock_target().decode()
        self._times = (ctypes.c_double * runs)()

    def _time(self, function, *arguments, mean=False):
        runs = ctypes.c_int64(len(self._times))
        getattr(self._library, f"clock_{function}")(*arguments, self._times, runs)
        times = list(self._times)[len(self._times) // 20 :]
        return (
            statistics.fmean(sorted(times)[: -len(times) // 20])
            if mean
            else statistics.median(times)
        )

    def largest(self, x):
        return self._time("largest", _rows(x), ctypes.c_int64(len(x)))

    def sample(self, x, previous=None, mean=False, **filters):
        token = torch.empty(1, dtype=torch.int64)
        chain = _filter(previous=previous, **filters)
        return self._time("sample", _rows(x), chain, _address(token), mean=mean)

    def filter_logits(self, x, previous=None, **filters):
        out = torch.empty(x.shape[-1])
        chain = _filter(previous=previous, **filters)
        return self._time("filter_logits", _rows(x), chain, _address(out))

    def verify(self, target, draft, drafted, coupled=False, previous=None, mean=False, **filters):
        out = torch.empty(len(target), dtype=torch.int64)
        chain = _filter(previous=previous, **filters)
        rows = _rows(target), _rows(draft), _address(drafted)
        rule = ctypes.c_int64(coupled), _address(out)
        return self._time("verify", *rows, chain, *rule, mean=mean)

    def accept(self, target, draft, drafted, uniforms=None, normalized=False):
        rows = _rows(target), _rows(draft), _address(drafted)
        rule = _address(uniforms), ctypes.c_int64(normalized)
        return self._time("accept", *rows, *rule)
