# SPDX-License-Identifier: Apache-2.0
"""The kernels of csrc/cpu/ alone, compiled with the flags they ship with and run on the rows of
main.cpp: by this machine, or by an emulator of aarch64."""

import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import backends
import native_library

HERE = Path(__file__).resolve().parent
ROOT = native_library.ROOT
FOLDER = ROOT / ".build" / "aarch64"
CROSS_COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64-static"
SOURCES = sorted(ROOT.glob("csrc/cpu/*.cpp"))
MAIN = HERE / "main.cpp"
OF_TESTS = sorted(
    path for name in ("aarch64", "bits", "redzones") for path in HERE.parent.glob(f"{name}/*.h")
)
HEADERS = [*native_library.KERNEL_HEADERS, *OF_TESTS]
FLAGS = [*native_library.FLAGS, f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests'}"]


def compile_source(compiler, flags, source):
    texts = [path.read_text() for path in [*HEADERS, source]]
    content = "\0".join([*compiler, *FLAGS, *flags, *texts])
    name = f"{source.stem}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.o"
    FOLDER.mkdir(parents=True, exist_ok=True)
    return backends.make(FOLDER / name, *compiler, *FLAGS, *flags, "-c", source)


def build(compiler, *flags, main=MAIN, link=("-static",), sources=SOURCES):
    """A program of the kernels and this main; its name says what it was made of."""
    backends.need(compiler[0])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sources = [*sources, main]
        objects = list(pool.map(lambda source: compile_source(compiler, flags, source), sources))
    name = hashlib.sha256("\0".join(map(str, objects)).encode()).hexdigest()[:12]
    return backends.make(FOLDER / f"kernels-{name}", *compiler, *link, *objects)


def on_this_machine(*flags):
    """The command that runs the kernels as this machine does."""
    return [build(native_library.compiler(), *flags)]


def on_aarch64(*flags, main=MAIN):
    """The command that runs the kernels as aarch64 does."""
    backends.need(EMULATOR)
    return [EMULATOR, build([CROSS_COMPILER], *flags, main=main)]


def run(command, target, *arguments):
    environment = {**os.environ, "SPEC_DECODE_OPS_CPU_TARGET": target}
    command = [*map(str, command), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def targets(command):
    """The targets there are, best first: what somebody is told who asks for one that is none."""
    return re.search(r"have: ([\w, ]+)\)", run(command, "none").stderr)[1].split(", ")


def answers(command, target, *arguments):
    """What the kernels of this target give: {question: hash, or counts of accepted drafts}."""
    result = run(command, target, *arguments)
    assert result.returncode == 0, result.stderr
    first, *lines = result.stdout.splitlines()
    assert first == f"target {target}"
    return dict(line.rsplit(" ", 1) for line in lines)
