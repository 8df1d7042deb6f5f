# SPDX-License-Identifier: Apache-2.0
"""The package over a library that counts what its CPU kernels read (hooks.cpp).

    counting = load()
    rows, result = counting.reads(lambda package: package.sample(x, seed=1), x[0], x[1])

`rows` are the bytes read of each tensor, over its own: 1.0 if each value was read once.
"""

import ctypes
import functools
import importlib.util
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import native_library
import torch
from native_library import ROOT, digest
from package_over import package_over

HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".build" / "cpu_reads"
HOOKS = HERE / "hooks.cpp"
JOBS = min(2, os.cpu_count() or 1)
NAMESPACE = "_spec_decode_ops_cpu_reads"
COUNTED = ["-O1", "-fsanitize=thread", "-fno-builtin-memcpy"]


def _make(path, *command):
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        subprocess.check_call([*map(str, command), "-o", str(unfinished)])
        unfinished.replace(path)
    return path


def _compile(source):
    """The object of this source as it ships, but for the kernels' hooks."""
    command = native_library.compile_command(source, NAMESPACE)
    if source.name.startswith("target_"):
        command += COUNTED
    texts = [path.read_text() for path in [*native_library.headers(source), source]]
    return _make(CACHE / f"{source.stem}-{digest(*command, *texts)}.o", *command, "-c")


def _build_hooks():
    command = [*native_library.compiler(), "-std=c++17", "-O2", "-fPIC", "-shared"]
    name = f"hooks-{digest(*command, HOOKS.read_text())}.so"
    return _make(CACHE / name, *command, HOOKS)


def _build(hooks):
    with ThreadPoolExecutor(JOBS) as pool:
        objects = list(pool.map(_compile, native_library.sources("cpu")))
    library = CACHE / digest(str(hooks), *map(str, objects)) / f"{NAMESPACE}.abi3.so"
    if not library.exists():
        native_library.link(objects, library, [str(hooks), "-Wl,--wrap=memcpy"])
    return library


class CountingLibrary:
    """A library in this process, with the package's Python over it."""

    def __init__(self):
        hooks = _build_hooks()
        path = _build(hooks)
        spec = importlib.util.spec_from_file_location(NAMESPACE, path)
        self._module = importlib.util.module_from_spec(spec)
        self._hooks = ctypes.CDLL(str(hooks))
        self._hooks.reads_watch.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._hooks.reads_bytes.restype = ctypes.c_uint64
        self.package = package_over(NAMESPACE, getattr(torch.ops, NAMESPACE))

    def reads(self, call, *tensors):
        """What the call returns, and how often it read the average element of each tensor."""
        for tensor in tensors:
            assert tensor.is_contiguous() and tensor.numel()
            size = tensor.numel() * tensor.element_size()
            self._hooks.reads_watch(tensor.data_ptr(), size)
        try:
            result = call(self.package)
            read = [self._hooks.reads_bytes(i) for i in range(len(tensors))]
        finally:
            self._hooks.reads_forget()
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        return [bytes_read / size for bytes_read, size in zip(read, sizes)], result

    def copy(self, to, source, count):
        """memcpy of so many elements, as the kernels do it."""
        pointers = ctypes.c_void_p(to.data_ptr()), ctypes.c_void_p(source.data_ptr())
        self._hooks.__getattr__("__wrap_memcpy")(*pointers, count * source.element_size())


@functools.cache
def load():
    return CountingLibrary()
