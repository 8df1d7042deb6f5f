# SPDX-License-Identifier: Apache-2.0
"""From CUDA source to a library that runs it: nvcc's PTX, translated, compiled by g++.

What is made stays in .build/cuda_emulator/, named by what it was made of.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / ".build" / "cuda_emulator"
CORE = ("access", "collective", "emulator", "launch", "order", "ranges", "shadow")
CORE_HEADERS = ("emulator.h", "machine.h", "order.h", "ranges.h", "shadow.h", "state.h")
WORDS = ("lanes.h", "arithmetic.h", "machine.h", "emulator.h")
TRANSLATOR = ("translate", "ptx", "control_flow", "operands", "emit")
TRANSLATOR += ("lanewise", "floating", "accesses", "warp_operations")
GXX = ["g++", "-std=c++20", "-march=x86-64-v3", "-ffp-contract=off", "-shared", "-fPIC"]
# The checks of a warp's 32 addresses are loops that vectorise.
CORE_FLAGS = ["-O3", "-fno-semantic-interposition", "-Wall", "-Wextra", "-Wno-restrict"]
LONG = 20000  # lines of PTX; to optimise more than that takes minutes


class Unavailable(Exception):
    """Why this machine cannot run CUDA sources under the emulator."""


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Unavailable(f"no {tool} on this machine")


def digest(*parts):
    """Of texts, and of files by their content."""
    read = (part.read_bytes() if isinstance(part, Path) else str(part).encode() for part in parts)
    return hashlib.sha256(b"\0".join(read)).hexdigest()[:16]


def make(output, *command):
    """Run a compiler, unless its output is there; two may do so at once."""
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        unfinished = output.with_name(f"{os.getpid()}-{output.name}")
        command = [*map(str, command), "-o", str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        unfinished.replace(output)
    return output


def core():
    """libemulator.so, which all modules share."""
    need("g++")
    sources = [HERE / f"{name}.cpp" for name in CORE]
    key = digest(*GXX, *CORE_FLAGS, *sources, *(HERE / name for name in CORE_HEADERS))
    return make(
        FOLDER / key / "libemulator.so", *GXX, *CORE_FLAGS, "-Wl,-soname,libemulator.so", *sources
    )


def ptx(source, arch=80, *flags):
    """The PTX of a .cu that includes nothing of the project."""
    need("nvcc")
    command = ["nvcc", "-std=c++17", "-ptx", f"-arch=compute_{arch}", *flags]
    return make(FOLDER / digest(source, *command) / f"{source.stem}.ptx", *command, source)


def effort(text):
    return ["-O1"] if text.count("\n") <= LONG else ["-O0"]


def translate_and_compile(ptx_path):
    """The module's library; libemulator.so, which it needs, is found by its path."""
    text = ptx_path.read_text()
    library = core()
    translator = [HERE / f"{name}.py" for name in TRANSLATOR]
    folder = FOLDER / digest(text, library.parent.name, *translator, *(HERE / w for w in WORDS))
    module = folder / f"{ptx_path.stem}.so"
    if not module.exists():
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / f"{os.getpid()}-{ptx_path.stem}.cpp"
        translation = [sys.executable, str(HERE / "translate.py"), str(ptx_path)]
        done = subprocess.run(translation, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        source.write_text(done.stdout)
        links = [f"-L{library.parent}", "-lemulator", f"-Wl,-rpath,{library.parent}"]
        make(module, *GXX, *effort(text), "-w", f"-I{HERE}", source, *links)
        source.unlink()
    return module
