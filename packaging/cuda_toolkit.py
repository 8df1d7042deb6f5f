# SPDX-License-Identifier: Apache-2.0
"""What building for CUDA needs: nvcc, what goes with it, and whether to build for CUDA at all.

The environment may set NVCC, the compiler, and SPEC_DECODE_OPS_CUDA: 1 asks for CUDA, 0 forbids
it, and without it CUDA is built where nvcc and a CUDA torch are.
"""

import functools
import importlib.util
import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

WISH = "SPEC_DECODE_OPS_CUDA"
BUILD_TOML = Path(__file__).resolve().parent.parent / "build.toml"

FLAGS = [
    "-std=c++17",
    "-O3",
    "-fmad=false",  # as on the CPU: a*b+c rounds twice unless the source asks for an fma
    "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-gnu-unique,-ffp-contract=off",
    "-Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas",  # the host's pass ignores `#pragma unroll`
]


def nvcc():
    """The CUDA compiler as the start of a command: that of NVCC, or the one on PATH; or None."""
    command = shlex.split(os.environ.get("NVCC", "nvcc"))
    return command if shutil.which(command[0]) else None


def required_nvcc():
    command = nvcc()
    if not command:
        raise SystemExit(
            "nvcc: no such CUDA compiler, wanted for the CUDA library. Install the CUDA toolkit, "
            f"put nvcc on PATH or name it in NVCC, or set {WISH}=0 for the CPU library"
        )
    return command


@functools.cache
def _dry_run(command):
    """What nvcc would do: it names its folders there, wherever it is installed."""
    dry = [*command, "--dryrun", "-x", "cu", os.devnull]
    return subprocess.run(dry, capture_output=True, text=True, check=True).stderr


def _folders(variable, flag):
    line = re.search(rf"^#\$ {variable}=(.*)$", _dry_run(tuple(required_nvcc())), re.MULTILINE)[1]
    words = [word for each in shlex.split(line) for word in shlex.split(each)]
    return [Path(word[len(flag) :]) for word in words if word.startswith(flag)]


def include_folders():
    return _folders("INCLUDES", "-I")


def library_folders():
    return [folder for folder in _folders("LIBRARIES", "-L") if folder.name != "stubs"]


def version():
    """(major, minor) of the toolkit."""
    text = subprocess.check_output([*required_nvcc(), "--version"], text=True)
    return tuple(map(int, re.search(r"release (\d+)\.(\d+)", text).groups()))


def capabilities():
    """What the library is built for, as build.toml has it: ["8.0", ..., "9.0+PTX"]."""
    array = re.search(r"^cuda-capabilities = \[(.*?)\]", BUILD_TOML.read_text(), re.MULTILINE)[1]
    return re.findall(r'"([^"]+)"', array)


def architecture_flags():
    """nvcc's flags for the capabilities: machine code for each, and PTX for those that ask."""
    flags = []
    for capability in capabilities():
        number = capability.replace("+PTX", "").replace(".", "")
        codes = [f"sm_{number}", *([f"compute_{number}"] if "+PTX" in capability else [])]
        flags += [f"-gencode=arch=compute_{number},code={code}" for code in codes]
    return flags


def torch_cuda_version():
    """The CUDA version of the installed torch as text, or None. Does not import torch."""
    folder = Path(importlib.util.find_spec("torch").origin).parent
    return runpy.run_path(str(folder / "version.py")).get("cuda")


def refusal():
    """Why CUDA is not built unless asked for; None if nothing stands against it."""
    of_torch = torch_cuda_version()
    if of_torch is None:
        return "this torch has no CUDA"
    if nvcc() is None:
        return "there is no nvcc"
    major, minor = version()
    if int(of_torch.split(".")[0]) != major:
        return f"nvcc is of CUDA {major}.{minor}, torch of CUDA {of_torch}"
    return None


def wanted():
    """Whether to build for CUDA. Says why not where that may surprise; fails if it was asked for
    and cannot be."""
    wish = os.environ.get(WISH, "")
    if wish not in ("", "0", "1"):
        raise SystemExit(f"{WISH} is {wish!r}, wanted 1, 0 or nothing")
    if wish == "0":
        return False
    reason = refusal()
    if wish == "1":
        required_nvcc()
        if reason and reason.startswith("nvcc is"):
            raise SystemExit(f"{WISH}=1, but {reason}: one process has one CUDA runtime")
        return True
    if reason and torch_cuda_version():
        print(f"spec-decode-ops: building for the CPU only, as {reason}", flush=True)
    return reason is None
