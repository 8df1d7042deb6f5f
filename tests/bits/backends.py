# SPDX-License-Identifier: Apache-2.0
"""Builds of the driver, one a backend: what compiles csrc/common/, and what the result runs under.

Programs stay in .build/bits/, in a folder named by the sources they were made of.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / ".build" / "bits"
SOURCES = sorted(
    path
    for pattern in ("csrc/common/*.h", "tests/bits/*.h", "tests/bits/*.c*")
    for path in ROOT.glob(pattern)
)
INCLUDES = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests'}"]
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", *INCLUDES]


class Unavailable(Exception):
    """Why this machine cannot have a backend."""


class Driver:
    """A built driver; see main.cpp for its commands."""

    def __init__(self, *command):
        self.command = [str(part) for part in command]

    def lines(self, *arguments):
        """The lines it prints, each as soon as it is there."""
        command = [*self.command, *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            yield from map(str.strip, process.stdout)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)


def source_digest():
    content = "\0".join(f"{path.name}\n{path.read_text()}" for path in SOURCES)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def program(name):
    """Where a program of this name belongs, for the present sources."""
    folder = FOLDER / source_digest()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Unavailable(f"no {tool} on this machine")


def make(output, *command):
    """Run a compiler, unless its output is there."""
    if not output.exists():
        unfinished = output.with_name(f"{os.getpid()}-{output.name}")
        subprocess.check_call([*map(str, command), "-o", str(unfinished)])
        unfinished.replace(output)
    return output


def host(name, *flags, compiler="g++"):
    need(compiler)
    sources = [HERE / "main.cpp", HERE / "host.cpp"]
    return make(program(name), compiler, *FLAGS, *flags, *sources)


def baseline():
    return Driver(host("baseline"))


def avx2():
    cpuinfo = Path("/proc/cpuinfo")
    present = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    if not {"avx2", "fma"} <= present:
        raise Unavailable("this machine has no AVX2 and FMA")
    return Driver(host("avx2", "-mavx2", "-mfma"))


def aarch64():
    emulator = "qemu-aarch64-static"
    need(emulator)
    return Driver(emulator, host("aarch64", "-static", compiler="aarch64-linux-gnu-g++"))


def ptx():
    """What nvcc makes of kernel.cu, run by a translator from PTX to C++: the script PTX2CPP names,
    with its run-time header beside it."""
    if not os.environ.get("PTX2CPP"):
        raise Unavailable("PTX2CPP does not name a translator from PTX to C++")
    need("nvcc", "g++")
    translator = Path(os.environ["PTX2CPP"])
    flags = ["-std=c++17", "-arch=compute_80", *INCLUDES]
    code = make(program("kernel.ptx"), "nvcc", "-ptx", *flags, HERE / "kernel.cu")
    translated = code.with_suffix(".cpp")
    translated.write_text(subprocess.check_output(["python3", translator, code], text=True))
    flags = ["-std=c++20", "-O2", "-ffp-contract=off", *INCLUDES]
    # The translation is C++ of the simulator's making: its warnings are not ours to mend.
    simulator = ["-w", "-mavx2", "-mfma", f"-I{translator.parent}"]
    kernel = make(program("kernel.o"), "g++", *flags, *simulator, "-c", translated)
    sources = [HERE / "main.cpp", HERE / "ptx.cpp"]
    return Driver(make(program("ptx"), "g++", *flags, *sources, kernel))


BACKENDS = {"baseline": baseline, "avx2": avx2, "aarch64": aarch64, "ptx": ptx}
