# SPDX-License-Identifier: Apache-2.0
"""The one place that compiles the sources: setup.py and kernel_layout.py both come here.

The sources use torch's stable ABI and Python's limited API, so one library serves every
torch >= 2.10 and every Python >= 3.9. There are two libraries, by `backend`: "cpu", and "cuda",
which has the CPU's ops too and shares the CUDA runtime of torch.

The environment may set CXX, the compiler. To build for another machine, CXX is a cross compiler and
SPEC_DECODE_OPS_SYSROOT a Debian root of that machine, with its Python's headers and its torch.
"""

import hashlib
import importlib.util
import os
import platform
import shlex
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cuda_toolkit

ROOT = Path(__file__).resolve().parent.parent
CUDA_BINDING = ROOT / "torch-ext" / "cuda_ops.cpp"
SOURCES = sorted({*ROOT.glob("csrc/cpu/*.cpp"), *ROOT.glob("torch-ext/*.cpp")} - {CUDA_BINDING})
CUDA_SOURCES = [CUDA_BINDING, *sorted(ROOT.glob("csrc/cuda/*.cu"))]
CUDA_HEADERS = sorted(path for path in ROOT.glob("csrc/cuda/*") if path.suffix in (".h", ".cuh"))
REGISTRATION = ROOT / "packaging" / "registration.h"
BINDING_HEADERS = [*sorted(ROOT.glob("torch-ext/*.h")), REGISTRATION]
KERNEL_HEADERS = sorted({*ROOT.glob("csrc/**/*.h")} - {*CUDA_HEADERS})
EXPORTS = ROOT / "packaging" / "exports.map"
OBJECTS = ROOT / ".build" / "objects"
SYSROOT = "SPEC_DECODE_OPS_SYSROOT"

FLAGS = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-ffp-contract=off",  # a*b+c rounds twice everywhere, or the bits would depend on the machine
    "-fno-gnu-unique",  # two kernels in one process must not share symbols
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-DPy_LIMITED_API=0x03090000",
    "-DTORCH_TARGET_VERSION=0x020a000000000000",
]


def digest(*parts):
    """A short name for this content."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def sources(backend):
    return SOURCES if backend == "cpu" else [*SOURCES, *CUDA_SOURCES]


def headers(source):
    """What `source` may include."""
    found = [*KERNEL_HEADERS]
    if source.parent.name == "torch-ext":
        found += BINDING_HEADERS
    if source in CUDA_SOURCES:
        found += CUDA_HEADERS
    return found


def source_digest(backend="cpu"):
    """A name for what the library is built from: it changes when a source, header or flag does."""
    files = [*sources(backend), *KERNEL_HEADERS, *BINDING_HEADERS, EXPORTS]
    flags = FLAGS
    if backend == "cuda":
        files += CUDA_HEADERS
        flags = [*FLAGS, *cuda_toolkit.FLAGS, *cuda_toolkit.architecture_flags()]
    return digest(*flags, *(f"{f.relative_to(ROOT)}\n{f.read_text()}" for f in files))


def compiler():
    """The C++ compiler: the command in CXX, or g++."""
    return shlex.split(os.environ.get("CXX", "g++"))


def sysroot():
    """The root of the machine that is built for, or None: it is this one."""
    root = os.environ.get(SYSROOT)
    return Path(root) if root else None


def in_sysroot(pattern):
    found = sorted(sysroot().glob(pattern))
    if not found:
        raise SystemExit(f"{SYSROOT}: {sysroot()} has no {pattern}")
    return found[0]


def machine():
    """The machine that is built for, as its own `uname -m` names it."""
    if sysroot() is None:
        return platform.machine()
    return subprocess.check_output([*compiler(), "-dumpmachine"], text=True).partition("-")[0]


def torch_folder():
    if sysroot() is None:
        return Path(importlib.util.find_spec("torch").origin).parent
    return in_sysroot("usr/local/lib/python3*/dist-packages/torch")


def python_includes():
    if sysroot() is None:
        return [Path(sysconfig.get_path("include"))]
    # The one for pyconfig.h: Debian's is <aarch64-linux-gnu/python3.11/pyconfig.h>, or the like.
    return [in_sysroot("usr/include/python3*"), in_sysroot("usr/include")]


def compile_command(source, namespace, backend="cpu"):
    """How `source` is compiled. Only the binding is told the library's name and backend, so that
    libraries share all other objects."""
    includes = [f"-I{ROOT / folder}" for folder in ("csrc", "torch-ext", "packaging")]
    if source.suffix == ".cu":
        flags = [*cuda_toolkit.FLAGS, *cuda_toolkit.architecture_flags()]
        return [*cuda_toolkit.required_nvcc(), *flags, *includes, str(source)]
    folders = [torch_folder() / "include", *python_includes()]
    if source == CUDA_BINDING:
        folders += cuda_toolkit.include_folders()
    for folder in folders:
        includes += ["-isystem", str(folder)]
    name = []
    if source.name == "torch_binding.cpp":
        name = [f"-D{backend.upper()}_KERNEL", f"-DTORCH_EXTENSION_NAME={namespace}"]
    return [*compiler(), *FLAGS, *includes, *name, str(source)]


def compile_source(source, namespace, backend="cpu"):
    """The object of this source; its name says what it was made of, so it is made once."""
    command = compile_command(source, namespace, backend)
    tool = cuda_toolkit.required_nvcc() if source.suffix == ".cu" else compiler()
    version = subprocess.check_output([*tool, "--version"], text=True)
    texts = [path.read_text() for path in [*headers(source), source]]
    obj = OBJECTS / f"{source.stem}-{digest(version, *command, *texts)}.o"
    if not obj.exists():
        print(f"  compiling {source.relative_to(ROOT)}", flush=True)
        OBJECTS.mkdir(parents=True, exist_ok=True)
        unfinished = obj.with_suffix(f".{os.getpid()}")
        subprocess.check_call([*command, "-c", "-o", str(unfinished)])
        unfinished.replace(obj)
    return obj


def link(objects, library, libraries=()):
    """Links objects, torch and `libraries` into `library`."""
    torch_libraries = [f"-L{torch_folder() / 'lib'}", "-ltorch", "-ltorch_cpu"]
    unfinished = library.with_suffix(f".{os.getpid()}")
    # Torch's CUDA symbols are found through libtorch, which nothing else would keep.
    command = [*compiler(), "-shared", f"-Wl,--version-script={EXPORTS}", "-Wl,--no-as-needed"]
    library.parent.mkdir(parents=True, exist_ok=True)
    objects = [str(obj) for obj in objects]
    subprocess.check_call([*command, *objects, *torch_libraries, *libraries, "-o", str(unfinished)])
    unfinished.replace(library)


def build(library, namespace, backend="cpu"):
    """Compile the sources and link them into `library`.

    `namespace` is the name of both the op namespace and the Python module inside the library. No
    two libraries in one process may share it. The environment may set MAX_JOBS, how many files to
    compile at once (all cores).
    """
    try:
        subprocess.check_output([*compiler(), "--version"])
    except OSError:
        raise SystemExit(
            f"{compiler()[0]}: no such C++ compiler. On Debian or Ubuntu: apt-get install g++"
        ) from None
    jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
    # Kernels first: they take longest.
    ordered = sorted(sources(backend), key=lambda source: source.suffix != ".cu")
    with ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(lambda each: compile_source(each, namespace, backend), ordered))
    # The shared runtime: the process has that of torch, found by its name, and no second one.
    runtime = []
    if backend == "cuda":
        runtime = [*(f"-L{folder}" for folder in cuda_toolkit.library_folders()), "-lcudart"]
    link(objects, library, runtime)


def ops_module(namespace):
    """The text of `_ops.py`, through which the package reaches the ops of its own library."""
    return f'''# Written by the build.
import torch

from . import {namespace}  # noqa: F401  (loading the library registers its ops)

ops = torch.ops.{namespace}


def add_op_namespace_prefix(op_name):
    """The full name of an op: `namespace::op_name`."""
    return f"{namespace}::{{op_name}}"
'''
