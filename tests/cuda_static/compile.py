# SPDX-License-Identifier: Apache-2.0
"""Machine code of a CUDA source for one architecture: what ptxas says of it, and its listing.

Compiled as the library is (`cuda_toolkit.FLAGS`), with line numbers, which change no instruction.
What is made stays in .build/cuda_static/, named by what it was made of.
"""

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cuda_toolkit
import native_library
from native_library import ROOT, digest

CACHE = ROOT / ".build" / "cuda_static"
JOBS = min(2, os.cpu_count() or 1)
DISASSEMBLER = "nvidia-cuda-nvdisasm"  # the package that has it


@dataclass(frozen=True)
class Resources:
    """What `ptxas -v` says of one kernel."""

    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int


@dataclass(frozen=True)
class Code:
    """One source for one architecture."""

    source: Path
    architecture: int  # 80: compute capability 8.0
    resources: dict  # kernel, mangled -> Resources
    listing: str  # of nvdisasm, each instruction with the lines it comes from


@functools.cache
def nvdisasm():
    """The disassembler, from its package or from PATH; or None."""
    try:
        files = importlib.metadata.files(DISASSEMBLER) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [str(file.locate()) for file in files if file.name == "nvdisasm"]
    return (found or [shutil.which("nvdisasm")])[0]


def missing():
    """What this machine lacks to look at machine code."""
    tools = {"nvcc": cuda_toolkit.nvcc(), "nvdisasm": nvdisasm()}
    return [name for name, tool in tools.items() if not tool]


def architectures():
    """Those that the library is built for: [80, ...]."""
    return [int(each.split("+")[0].replace(".", "")) for each in cuda_toolkit.capabilities()]


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def parse_resources(text):
    """`ptxas -v` -> {mangled name: Resources}."""
    found = {}
    for part in text.split("Compiling entry function '")[1:]:
        name = part.split("'")[0]
        frame = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        stack, stores, loads = map(int, re.search(frame, part).groups())
        shared = re.search(r"(\d+) bytes smem", part)
        registers = int(re.search(r"Used (\d+) registers", part)[1])
        found[name] = Resources(registers, int(shared[1]) if shared else 0, stack, stores, loads)
    return found


def machine_code(listing):
    """The sections of kernels; the others are data."""
    sections = listing.split("\n//-----")
    return "\n".join(f"//-----{each}\n" for each in sections if "\t.section\t.text." in each)


@functools.cache
def versions():
    return run(*cuda_toolkit.required_nvcc(), "--version") + run(nvdisasm(), "--version")


def compile_one(source, architecture):
    """The Code of this source, made once."""
    ours = source in native_library.CUDA_SOURCES
    command = [*cuda_toolkit.required_nvcc(), *cuda_toolkit.FLAGS, "-lineinfo", "-Xptxas=-v"]
    command += [f"-arch=sm_{architecture}", "-cubin", f"-I{ROOT / 'csrc'}", str(source)]
    read = [source, *(native_library.headers(source) if ours else [])]
    name = digest(versions(), *command, *(path.read_text() for path in read))
    folder = CACHE / f"{source.stem}-sm_{architecture}-{name}"
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        cubin = unfinished / "code.cubin"
        (unfinished / "ptxas.txt").write_text(run(*command, "-o", cubin))
        (unfinished / "listing.txt").write_text(machine_code(run(nvdisasm(), "-gi", cubin)))
        cubin.unlink()
        try:
            unfinished.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    resources = parse_resources((folder / "ptxas.txt").read_text())
    return Code(source, architecture, resources, (folder / "listing.txt").read_text())


def compile_all(sources, of_architectures):
    """{(source, architecture): Code}"""
    wanted = [(source, a) for source in sources for a in of_architectures]
    with ThreadPoolExecutor(JOBS) as pool:
        return dict(zip(wanted, pool.map(lambda each: compile_one(*each), wanted)))
