# SPDX-License-Identifier: Apache-2.0
"""CUDA libraries of ours, run on the CPU for tests.

    emulated = load("8.0")
    emulated.package.sample(logits, top_k=50)    # the package, its ops those of the GPU
    emulated.ops.sample.default(logits, ...)     # an op as it is
    emulated.counters().launches

A call goes through the library as it is shipped: binding, workspace, launches, kernels. Its tensors
are CPU tensors; each argument is copied to device memory first, where it may only be read, and
results are copied back. What a GPU would not forgive raises EmulatorViolation.
"""

import ctypes
import functools
import importlib.util
from dataclasses import dataclass

import torch
from package_over import package_over

from . import build

ARCHITECTURES = ("8.0", "8.6", "8.9", "9.0")
POISON = 0xFB
ALIGNMENT = 512  # of what torch's CUDA allocator gives
MOST_RUNS = 1024  # of one argument, that are told apart
EVERY_CHECK = 31


class EmulatorViolation(RuntimeError):
    """The library did what a GPU would not forgive."""


@dataclass(frozen=True)
class Launch:
    """What was put on the stream: a kernel, cudaMemsetAsync or cudaMemcpyAsync."""

    kernel: str
    grid: tuple
    block: tuple
    shared_bytes: int


@dataclass(frozen=True)
class Counters:
    """What was done since the last reset. Bytes are by an argument's name, "workspace buffer", or
    "allocated" for results and what else the op took from torch; a lane's every load counts."""

    launches: list
    bytes_read: dict
    bytes_written: dict
    instructions: int  # of warps
    barriers: int  # of blocks


class _EmulatorCounters(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("launches", "blocks", "instructions", "barriers", "bytes_read", "written")
    ]


def load(architecture="8.0", sources=None):
    """The library on a GPU of this compute capability: "8.0" to "9.0", "7.5", which it was not
    built for, or None for a machine without a GPU."""
    return _emulated(architecture, sources or build.project())


@functools.cache
def _emulated(architecture, sources):
    return Emulated(_loaded(sources), architecture)


@functools.cache
def _loaded(sources):
    return _Library(build.build(sources))


class Emulated:
    """A library on one GPU. `ops` takes CPU tensors, and has what the library's namespace has."""

    def __init__(self, library, architecture):
        self._library = library
        self._capability = int(architecture.replace(".", "")) if architecture else 0
        library.add_gpu(self._capability)
        self.architecture = architecture
        self.namespace = f"{library.namespace}_{self._capability}"
        self._definitions = torch.library.Library(self.namespace, "DEF")
        for op in library.ops():
            self._define(op)
        self.ops = getattr(torch.ops, self.namespace)

    @functools.cached_property
    def package(self):
        """The package's Python, with the emulated ops for its own."""
        return package_over(self.namespace, self.ops)

    def tensor(self, tensor, label="input", *, read_only=True):
        """A copy of the tensor in device memory, with its strides and its storage's alignment. Only
        its own elements are in bounds: not those before it in its storage, nor between its rows."""
        return self._library.tensor(tensor, label, read_only)

    def configure(self, seed=0, checks=EVERY_CHECK):
        """Seed 0 runs blocks and warps in order, any other shuffles them. `checks` is a sum of
        EmulatorChecks, of emulator.h."""
        self._library.memory.emulator_configure(seed, checks)

    def set_multiprocessors(self, count):
        self._library.runtime.devices_set_processors(count)

    def counters(self):
        return self._library.counters()

    def reset_counters(self):
        self._library.runtime.launch_log_reset()
        self._library.memory.memory_reset_traffic()

    def _define(self, op):
        """Defines the op anew in our own namespace, as one whose CPU tensors go to the GPU."""
        schema = str(op._schema).replace(f"{self._library.namespace}::", "")
        name = schema.partition("(")[0]
        self._definitions.define(schema)
        tensors = getattr(getattr(torch.ops, op.namespace), op._opname)
        if _has_cuda(op):
            self._definitions.impl(name, functools.partial(self._call, op), "CPU")
        elif "tensors" in tensors.overloads() and op._overloadname == "default":
            on_gpu = functools.partial(self._call, tensors.tensors)
            self._definitions.impl(name, lambda *arguments: _numbers(on_gpu(*arguments)), "CPU")
        else:
            self._definitions.impl(name, op, "CompositeExplicitAutograd")

    def _call(self, op, *arguments):
        return self._library.call(op, self._capability, arguments)


def _has_cuda(op):
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CUDA")


def _numbers(tensors):
    return tuple(tensor.item() for tensor in tensors)


class _Library:
    """A library in this process, and the machine that it runs on."""

    def __init__(self, built):
        self.namespace = built.namespace
        self.memory = ctypes.CDLL(str(built.memory))
        spec = importlib.util.spec_from_file_location(built.namespace, built.path)
        self._module = importlib.util.module_from_spec(spec)
        self.runtime = ctypes.CDLL(str(built.path))
        _declare(self.memory, self.runtime)
        self._built, self._gpus = built, set()
        self.memory.memory_install()

    def add_gpu(self, capability):
        """Gives a GPU its kernels, if there are any for it."""
        if capability in build.CODE_OF and capability not in self._gpus:
            self._gpus.add(capability)
            for module in build.device_modules(self._built, capability):
                self._add(capability, module)

    def _add(self, capability, module):
        if error := self.runtime.cudart_add_module(capability, str(module.path).encode()):
            raise OSError(error.decode())
        for kernel in module.kernels:
            name, size = kernel.name.encode(), kernel.static_shared_bytes
            self.runtime.cudart_describe_kernel(capability, name, kernel.max_threads, size)

    def ops(self):
        names = torch._C._dispatch_get_all_op_names()
        for name in sorted(name for name in names if name.startswith(f"{self.namespace}::")):
            op, _, overload = name.partition("::")[2].partition(".")
            yield getattr(getattr(getattr(torch.ops, self.namespace), op), overload or "default")

    def call(self, op, capability, arguments):
        """The op's CUDA kernel on copies of the arguments; copies of its results."""
        self._raise_violation("before the call")
        names = [argument.name for argument in op._schema.arguments]
        copies = [
            self.tensor(value, name, True) if isinstance(value, torch.Tensor) else value
            for name, value in zip(names, arguments)
        ]
        error, results = self._run(op, capability, copies)
        self.memory.memory_check()
        del copies
        results = _ordinary(results)
        self._raise_violation(op.name(), error)
        if error:
            raise error
        for i, result in enumerate(results if isinstance(results, tuple) else [results]):
            _require_written(op, i, result)
        return results

    def _raise_violation(self, where, cause=None):
        if violation := self.memory.violations_take():
            raise EmulatorViolation(f"{where}: {violation.decode()}") from cause

    def _run(self, op, capability, arguments):
        """(what was raised or None, the results in device memory)"""
        self.runtime.devices_select(capability)
        self.runtime.cudart_begin_call()
        self.memory.memory_open(b"allocated", True)
        self.memory.memory_lock()
        try:
            cuda = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
            return None, op.redispatch(cuda, *arguments)
        except RuntimeError as error:
            return error.with_traceback(None), None
        finally:
            self.memory.memory_unlock()
            self.memory.memory_close()
            self.runtime.cudart_end_call()

    def tensor(self, tensor, label, read_only):
        tensor = tensor.detach()
        if tensor.numel() == 0 or self.memory.memory_holds(tensor.data_ptr()):
            return tensor
        shape = tuple(zip(tensor.shape, tensor.stride()))
        span = 1 + sum((size - 1) * stride for size, stride in shape)
        before = tensor.storage_offset() % (ALIGNMENT // tensor.itemsize)
        self.memory.memory_open(label.encode(), False)
        try:
            memory = torch.empty(before + span, dtype=tensor.dtype)
        finally:
            self.memory.memory_close()
        memory[before:] = tensor.as_strided((span,), (1,))
        start, item = memory.data_ptr() + before * tensor.itemsize, tensor.itemsize
        for first, length in _runs(shape, span):
            self.memory.memory_name_buffer(start + first * item, length * item, label.encode())
        if read_only:
            self.memory.memory_make_read_only(start)
        return memory.as_strided(tensor.shape, tensor.stride(), before)

    def counters(self):
        launches = []
        for line in self.runtime.launch_log_read().decode().splitlines():
            kernel, grid, block, shared_bytes = line.split("\t")
            sizes = (tuple(map(int, text.split(","))) for text in (grid, block))
            launches.append(Launch(kernel, *sizes, int(shared_bytes)))
        read, written = {}, {}
        for line in self.memory.memory_traffic().decode().splitlines():
            label, bytes_read, bytes_written = line.split("\t")
            label = label.partition(" at byte ")[0]
            read[label] = read.get(label, 0) + int(bytes_read)
            written[label] = written.get(label, 0) + int(bytes_written)
        sums = self.memory.emulator_counters(None)
        return Counters(launches, read, written, sums.instructions, sums.barriers)


def _declare(memory, runtime):
    """The C functions whose arguments or results are not ints."""
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    memory.memory_holds.argtypes = [pointer]
    memory.memory_name_buffer.argtypes = [pointer, size, text]
    memory.memory_make_read_only.argtypes = [pointer]
    memory.memory_traffic.restype = text
    memory.violations_take.restype = text
    memory.emulator_configure.argtypes = [ctypes.c_uint64, ctypes.c_uint]
    memory.emulator_counters.argtypes = [text]
    memory.emulator_counters.restype = _EmulatorCounters
    runtime.cudart_describe_kernel.argtypes = [ctypes.c_int, text, ctypes.c_int, size]
    runtime.cudart_add_module.argtypes = [ctypes.c_int, text]
    runtime.cudart_add_module.restype = text
    runtime.launch_log_read.restype = text


def _runs(shape, span):
    """(first, length) of each stretch of elements without a gap; (size, stride) by dimension."""
    length, starts = 1, [0]
    for size, stride in sorted((s for s in shape if s[0] > 1 and s[1]), key=lambda s: s[1]):
        if stride <= length:
            length += (size - 1) * stride
        elif size * len(starts) > MOST_RUNS:
            return [(0, span)]
        else:
            starts = [start + i * stride for i in range(size) for start in starts]
    return [(start, length) for start in starts]


def _ordinary(results):
    """Copies of tensors that are in device memory, outside of it."""
    if isinstance(results, tuple):
        return tuple(map(_ordinary, results))
    if not isinstance(results, torch.Tensor):
        return results
    copy = torch.empty_strided(results.shape, results.stride(), dtype=results.dtype)
    return copy.copy_(results)


def _require_written(op, i, result):
    if not isinstance(result, torch.Tensor) or result.numel() == 0:
        return
    elements = result.reshape(-1).view(torch.uint8).view(-1, result.itemsize)
    never = (elements == POISON).all(1).sum().item()
    if never:
        raise EmulatorViolation(f"{op.name()}: of result {i}, {never} elements were never written")
