# SPDX-License-Identifier: Apache-2.0
"""Kernels of a .cu under the emulator, from Python: memory is numpy's.

module = Module(path)
with module.memory(logits=x, out=y):
    module.launch("kernel", grid, block, x, y, 5)   # raises Violation
"""

import contextlib
import ctypes

import numpy as np

from . import compile as toolchain

CHECK_EVERYTHING = 31
INSTRUCTIONS = 1 << 26  # of one warp in one launch
SHARED_RACES, GLOBAL_RACES, UNINITIALIZED, WARP_RACES, EXITED_LANES = 1, 2, 4, 8, 16
Dimensions = ctypes.c_uint * 3
Count = ctypes.c_uint64


class Violation(Exception):
    """What the emulator found."""


class Counters(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "launches",
            "blocks",
            "instructions",
            "barriers",
            "global_bytes_read",
            "global_bytes_written",
        )
    ]


def dimensions(size):
    return Dimensions(*(tuple(np.atleast_1d(size)) + (1, 1))[:3])


def argument(value):
    """A ctypes value: an address for an array or None; Python's int and float are C's."""
    if value is None:
        return ctypes.c_void_p()
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, (int, float)):
        return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_float(value)
    return value


class Module:
    def __init__(self, source, arch=80, *flags):
        library = toolchain.translate_and_compile(toolchain.ptx(source, arch, *flags))
        self.kernels = ctypes.CDLL(str(library))
        self.core = ctypes.CDLL(str(toolchain.core()))
        self.core.emulator_counters.restype = Counters

    @contextlib.contextmanager
    def configured(self, seed=0, checks=CHECK_EVERYTHING, budget=INSTRUCTIONS):
        """The settings of all modules of this process, as they are by default afterwards."""
        self._configure(seed, checks, budget)
        try:
            yield
        finally:
            self._configure(0, CHECK_EVERYTHING, INSTRUCTIONS)

    def _configure(self, seed, checks, budget):
        self.core.emulator_configure(Count(seed), ctypes.c_uint(checks))
        self.core.emulator_set_instruction_budget(Count(budget))

    @contextlib.contextmanager
    def memory(self, **arrays):
        """Lets kernels touch these arrays, and nothing else."""
        for label, array in arrays.items():
            size = Count(array.nbytes)
            self.core.emulator_add_range(argument(array), size, label.encode())
        try:
            yield
        finally:
            for array in arrays.values():
                self.core.emulator_remove_range(argument(array))

    def bytes(self, array):
        """(read, written) in an array, by what the lanes asked for."""
        read, written = Count(), Count()
        self.core.emulator_range_bytes(argument(array), ctypes.byref(read), ctypes.byref(written))
        return read.value, written.value

    def counters(self, kernel=None):
        return self.core.emulator_counters(kernel and kernel.encode())

    def launch(self, kernel, grid, block, *arguments, shared=0):
        values = [argument(value) for value in arguments]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        message = ctypes.create_string_buffer(1024)
        failed = self.core.emulator_run(
            getattr(self.kernels, f"launch_{kernel}"),
            dimensions(grid),
            dimensions(block),
            Count(shared),
            pointers,
            message,
            Count(len(message)),
        )
        if failed:
            raise Violation(message.value.decode())
