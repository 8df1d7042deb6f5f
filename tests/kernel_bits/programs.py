# SPDX-License-Identifier: Apache-2.0
"""The kernels of csrc/cpu/ alone, compiled with the flags they ship with, and what they give for
the rows of main.cpp. A program runs here, or on an emulated machine: see aarch64/ and avx512/."""

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
FOLDER = ROOT / ".build" / "kernel_bits"
SOURCES = sorted(ROOT.glob("csrc/cpu/*.cpp"))
MAIN = HERE / "main.cpp"
OF_TESTS = sorted(
    path for name in ("bits", "kernel_bits", "redzones") for path in HERE.parent.glob(f"{name}/*.h")
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


def run(command, target, *arguments):
    environment = {**os.environ, "SPEC_DECODE_OPS_CPU_TARGET": target}
    command = [*map(str, command), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def named_targets(refusal):
    """The targets there are, best first: what somebody is told who asks for one that is none."""
    return re.search(r"have: ([\w, ]+)\)", refusal)[1].split(", ")


def targets(command):
    return named_targets(run(command, "none").stderr)


def by_question(printed, target):
    """What the kernels of this target gave: {question: hash, or counts of accepted drafts}."""
    first, *lines = printed.splitlines()
    assert first == f"target {target}"
    return dict(line.rsplit(" ", 1) for line in lines)


def answers(command, target, *arguments):
    result = run(command, target, *arguments)
    assert result.returncode == 0, result.stderr
    return by_question(result.stdout, target)


def differences(found, wanted):
    """The questions whose answers differ."""
    assert found.keys() == wanted.keys()
    return [question for question in wanted if found[question] != wanted[question]]
