# SPDX-License-Identifier: Apache-2.0
"""The one place that compiles the C++ sources: setup.py and kernel_layout.py both come here.

The sources use torch's stable ABI and Python's limited API, so one library serves every
torch >= 2.10 and every Python >= 3.9.
"""

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([*ROOT.glob("csrc/cpu/*.cpp"), *ROOT.glob("torch-ext/*.cpp")])
HEADERS = sorted([*ROOT.glob("csrc/**/*.h"), *ROOT.glob("torch-ext/*.h")])
REGISTRATION = ROOT / "packaging" / "registration.h"
EXPORTS = ROOT / "packaging" / "exports.map"
OBJECTS = ROOT / ".build" / "objects"

FLAGS = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-ffp-contract=off",  # a*b+c rounds twice everywhere, or the bits would depend on the machine
    "-fno-gnu-unique",  # two kernels in one process must not share symbols
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-DCPU_KERNEL",
    "-DPy_LIMITED_API=0x03090000",
    "-DTORCH_TARGET_VERSION=0x020a000000000000",
]


def digest(*parts):
    """A short name for this content."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def source_digest():
    """A name for what the library is built from: it changes when a source, header or flag does."""
    files = [*SOURCES, *HEADERS, REGISTRATION, EXPORTS]
    return digest(*FLAGS, *(f"{f.relative_to(ROOT)}\n{f.read_text()}" for f in files))


def compiler():
    """The C++ compiler: the command in CXX, or g++."""
    return shlex.split(os.environ.get("CXX", "g++"))


def torch_folder():
    return Path(importlib.util.find_spec("torch").origin).parent


def compile_command(source, namespace):
    """How `source` is compiled. Only torch-ext/ is told the name of the library."""
    includes = [f"-I{ROOT / folder}" for folder in ("csrc", "torch-ext", "packaging")]
    for folder in (torch_folder() / "include", sysconfig.get_path("include")):
        includes += ["-isystem", str(folder)]
    name = [f"-DTORCH_EXTENSION_NAME={namespace}"] if source.parent.name == "torch-ext" else []
    return [*compiler(), *FLAGS, *includes, *name, str(source)]


def build(library, namespace):
    """Compile the sources and link them into `library`.

    `namespace` is the name of both the op namespace and the Python module inside the library. No
    two libraries in one process may share it. The environment may set CXX, the compiler, and
    MAX_JOBS, how many files to compile at once (all cores).
    """
    try:
        version = subprocess.check_output([*compiler(), "--version"], text=True)
    except OSError:
        raise SystemExit(
            f"{compiler()[0]}: no such C++ compiler. On Debian or Ubuntu: apt-get install g++"
        ) from None
    shared = digest(version, *(header.read_text() for header in [*HEADERS, REGISTRATION]))

    def compile_source(source):
        """The object of this source; its name says what it was made of, so it is made once."""
        command = compile_command(source, namespace)
        obj = OBJECTS / f"{source.stem}-{digest(shared, *command, source.read_text())}.o"
        if not obj.exists():
            print(f"  compiling {source.relative_to(ROOT)}", flush=True)
            unfinished = obj.with_suffix(f".{os.getpid()}")
            subprocess.check_call([*command, "-c", "-o", str(unfinished)])
            unfinished.replace(obj)
        return str(obj)

    OBJECTS.mkdir(parents=True, exist_ok=True)
    jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(compile_source, SOURCES))
    library.parent.mkdir(parents=True, exist_ok=True)
    unfinished = library.with_suffix(f".{os.getpid()}")
    link = [*compiler(), "-shared", f"-Wl,--version-script={EXPORTS}"]
    torch_libraries = [f"-L{torch_folder() / 'lib'}", "-ltorch", "-ltorch_cpu"]
    subprocess.check_call([*link, *objects, *torch_libraries, "-o", str(unfinished)])
    unfinished.replace(library)


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
