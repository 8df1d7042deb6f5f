# SPDX-License-Identifier: Apache-2.0
"""Builds a CUDA library of ours to run on the CPU.

nvcc compiles each .cu once, for all architectures, as it does for a GPU. Its host object is linked
with the C++ sources as they are shipped, and with the stand-in runtime in place of libcudart. Its
PTX, one text an architecture, is translated to a device module; texts that differ in nothing but
the architecture share one. All that is made is kept by content.
"""

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cuda_toolkit
import native_library
from native_library import ROOT, digest

from . import compile as emulator

HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".build" / "cuda_emulator"
JOBS = min(2, os.cpu_count() or 1)

# What is linked into a library in place of libcudart, and what all of them share.
RUNTIME = ("cudart", "cudart_errors", "cudart_memory", "devices", "launch_log", "torch_cuda")
MEMORY = ("memory", "violations")
# Each GPU runs the newest PTX that is not newer than itself, as PTX serves all that come after it.
CODE_OF = {80: 80, 86: 80, 89: 80, 90: 90}

FLAGS = ("-std=c++17", "-O2", "-fPIC", "-Wall", "-Wextra")


@dataclass(frozen=True)
class Sources:
    """What a library is made of. `namespace` is the name of its ops and of its Python module."""

    namespace: str
    cuda: tuple
    cpp: tuple
    includes: tuple


@dataclass(frozen=True)
class Kernel:
    """What PTX says of a kernel besides its code."""

    name: str
    max_threads: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Module:
    """The kernels of one PTX text, translated."""

    path: Path
    kernels: tuple


@dataclass(frozen=True)
class Library:
    """A library, that of the device memory it uses, and the folders of its compiled kernels."""

    namespace: str
    path: Path
    memory: Path
    kernels: tuple


def project():
    """The library that is shipped."""
    return Sources(
        namespace="_spec_decode_ops_emulated",
        cuda=tuple(sorted((ROOT / "csrc" / "cuda").glob("*.cu"))),
        cpp=tuple(source for source in native_library.sources("cuda") if source.suffix == ".cpp"),
        includes=(ROOT / "csrc", ROOT / "torch-ext", ROOT / "packaging"),
    )


def probe():
    """A library of one op, which makes a mistake when asked to."""
    folder = HERE / "fixtures"
    return Sources(
        namespace="_cuda_emulator_probe",
        cuda=(folder / "probe.cu",),
        cpp=(folder / "probe_binding.cpp",),
        includes=(folder, ROOT / "packaging"),
    )


def build(sources):
    """The library of these sources, as a Library."""
    with ThreadPoolExecutor(JOBS) as pool:
        kernels = [pool.submit(_compile_kernels, sources, source) for source in sources.cuda]
        objects = [pool.submit(_compile_binding, sources, source) for source in sources.cpp]
        runtime = [pool.submit(_compile_own, source) for source in RUNTIME]
        memory = pool.submit(_memory_library).result()
        folders = [each.result() for each in kernels]
    objects = [each.result() for each in [*objects, *runtime]]
    objects += [folder / "host.o" for folder in folders]
    exports = [f"-Wl,--version-script={HERE / 'exports.map'}", *_torch_libraries()]
    path = _link(f"{sources.namespace}-{{}}.so", [*objects, memory], exports)
    return Library(sources.namespace, path, memory, tuple(folders))


def device_modules(library, gpu):
    """What a GPU (80, ...) runs of a library: a Module for each .cu."""
    texts = list(_texts(library.kernels, CODE_OF[gpu]))
    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(_device_module, texts))


# ---- Kernels ----


def _compile_kernels(sources, source):
    """A folder of host.o and, for each capability, its PTX, of one run of nvcc."""
    command = [*cuda_toolkit.required_nvcc(), *cuda_toolkit.FLAGS, "-cudart=none"]
    command += [
        f"-gencode=arch=compute_{n},code=compute_{n}" for n in sorted(set(CODE_OF.values()))
    ]
    command += [f"-I{folder}" for folder in sources.includes]

    def compile_into(folder):
        folder.mkdir()
        keep = ["--keep", f"--keep-dir={folder}"]
        subprocess.check_call([*command, *keep, "-c", str(source), "-o", str(folder / "host.o")])
        for path in folder.iterdir():
            if path.suffix != ".ptx" and path.name != "host.o":
                path.unlink()

    key = (*command, _text(_with_headers(source, sources.includes)), str(cuda_toolkit.version()))
    return _kept(f"{source.stem}-{{}}", key, compile_into)


def _texts(folders, capability):
    """The PTX of one capability, without the lines that only name it."""
    for folder in folders:
        (path,) = folder.glob(f"*.compute_{capability}.ptx")
        lines = path.read_text().splitlines(keepends=True)
        yield "".join(line for line in lines if not line.startswith(("//", ".target")))


def _device_module(text):
    ptx = _kept("device-{}.ptx", (text,), lambda path: path.write_text(text))
    return Module(emulator.translate_and_compile(ptx), tuple(kernels_of(text)))


def kernels_of(ptx):
    """The kernels of a PTX text."""
    shared = dict(re.findall(r"^\s*\.shared .*?\.b8 (\S+)\[(\d+)\];", ptx, re.MULTILINE))
    entries = re.split(r"^(?:\.visible |\.weak )?\.entry ", ptx, flags=re.MULTILINE)[1:]
    for entry in entries:
        name, body = re.match(r"[\w$]+", entry)[0], entry[: entry.index("\n}")]
        bounds = re.search(r"^\.maxntid (.+)$", body, re.MULTILINE)
        threads = 1
        for size in bounds[1].split(",") if bounds else ["1024"]:
            threads *= int(size)
        used = set(re.findall(r"[\w$]+", body)) & shared.keys()
        yield Kernel(name, threads, sum(int(shared[variable]) for variable in used))


# ---- C++ ----


def _compile_binding(sources, source):
    if source in native_library.sources("cuda"):
        return native_library.compile_source(source, sources.namespace, "cuda")
    command = [*native_library.compiler(), *native_library.FLAGS]
    command += [f"-I{folder}" for folder in sources.includes]
    command += [*_system_includes(), f"-DTORCH_EXTENSION_NAME={sources.namespace}"]
    return _compile(source, command, sources.includes)


def _compile_own(stem):
    command = [*native_library.compiler(), *FLAGS, *_system_includes()]
    return _compile(HERE / f"{stem}.cpp", command)


def _system_includes():
    folders = [native_library.torch_folder() / "include", Path(sysconfig.get_path("include"))]
    folders += cuda_toolkit.include_folders()
    return [part for folder in folders for part in ("-isystem", str(folder))]


def _compile(source, command, folders=()):
    return _kept(
        f"{source.stem}-{{}}.o",
        (*command, _text(_with_headers(source, folders))),
        lambda path: subprocess.check_call([*command, "-c", str(source), "-o", str(path)]),
    )


def _memory_library():
    """Device memory, of which a process has one, whatever libraries it loads."""
    objects = [*map(_compile_own, MEMORY), emulator.core()]
    return _link("libdevice_memory-{}.so", objects, _torch_libraries())


def _torch_libraries():
    folder = native_library.torch_folder() / "lib"
    return [f"-L{folder}", "-ltorch", "-ltorch_cpu", "-lc10"]


def _link(name, objects, flags):
    """A shared library of objects, and of other shared libraries, which it will find in place."""
    command = [*native_library.compiler(), "-shared", *map(str, objects), *flags]
    command += [f"-Wl,-rpath,{Path(each).parent}" for each in objects if each.suffix == ".so"]
    return _kept(
        name,
        (*command, _text([HERE / "exports.map"])),
        lambda path: subprocess.check_call([*command, "-o", str(path)]),
    )


# ---- What was made before ----


def _with_headers(source, folders):
    """The source and all that it includes, directly or not, from its own or these folders."""
    found, new = set(), [source]
    while new:
        path = new.pop()
        found.add(path)
        for name in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            header = next((f / name for f in (path.parent, *folders) if (f / name).exists()), None)
            if header and header not in found:
                new.append(header)
    return sorted(found)


def _text(paths):
    return "\0".join(path.read_text() for path in paths)


def _kept(name, key, make):
    """The file of this name, {} in it standing for the key; made by `make(path)` the first time."""
    path = CACHE / name.format(digest(*key))
    if path.exists():
        return path
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        unfinished = Path(folder) / path.name
        make(unfinished)
        try:
            unfinished.replace(path)
        except OSError:  # a folder that another process was quicker to make
            shutil.rmtree(unfinished)
    return path
