# SPDX-License-Identifier: Apache-2.0
"""The stages of gpu_check.py that ask whether the tokens are right, each within its time."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace

import torch
from gpu_package import ROOT, kernel_layout

PASSED, FAILED, UNFINISHED, SKIPPED = "passed", "failed", "unfinished", "skipped"
DEVICE_TESTS = [
    "tests/test_goldens.py",
    "tests/test_cuda_same_bits.py",
    "tests/test_cuda_draws.py",
]
# It asks the emulator how many launches there were.
NOT_FOR_A_GPU = "not no_rows_are_no_launch"
FEW = (
    "(rows_are_those_of_the_cpu and 999 and normal) or (verification_is_that_of_the_cpu and 999)"
    " or acceptance_is_that_of_the_cpu"
)
FEWEST = "sample and float32 and 999 or test_rows_are_those_of_the_cpu and 31 and peaked"
INSTALLED_SANITIZER = "/usr/local/cuda/bin/compute-sanitizer"
SANITIZER_TOOLS = ("memcheck", "racecheck")


@dataclass(frozen=True)
class Outcome:
    stage: str
    status: str
    text: str
    seconds: float

    def __str__(self):
        return f"{self.stage}: {self.status} ({self.seconds:.0f} s) {self.text}"

    as_dict = asdict


class Budget:
    """Seconds that are left of those for the whole run."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes

    def left(self):
        return max(0.0, self.end - time.monotonic())


def build(backend):
    """Lays the package out, if it is not. Needs no GPU, so the time is that of the compiler."""
    start = time.monotonic()
    kernel_layout.lay_out(backend)
    library = kernel_layout.identifier(backend)
    return Outcome("build", PASSED, library, time.monotonic() - start)


def pytest_command(backend, device, wanted, files=DEVICE_TESTS):
    folder = str(kernel_layout.variant(backend))
    return [
        *(sys.executable, "-m", "pytest", "-q", "--maxfail=5", "-p", "no:cacheprovider"),
        *("--noconftest", "-p", "gpu_fixtures", "--package", folder, "--device", device),
        *("-k", wanted, *files),
    ]


def environment(**more):
    path = [str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **more}


def run(stage, command, seconds, **variables):
    """A program that passes by its exit status, stopped when its time is over."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=max(seconds, 1),
        )
    except subprocess.TimeoutExpired:
        text = f"stopped after {seconds:.0f} s, when its time was over"
        return Outcome(stage, UNFINISHED, text, time.monotonic() - start)
    lines = done.stdout.strip().splitlines() or [""]
    status = FAILED if done.returncode else PASSED
    text = "\n".join(lines[-40:]) if done.returncode else lines[-1]
    return Outcome(stage, status, text, time.monotonic() - start)


def same_bits(backend, device, seconds, wanted=NOT_FOR_A_GPU):
    """The frozen answers, the CPU's tokens by both algorithms, and draws against their law."""
    command = pytest_command(backend, device, wanted)
    return run("frozen answers and the CPU's bits", command, seconds)


def sanitize(backend, device, seconds):
    """A small set of calls under NVIDIA's checker of memory and races, where it is installed."""
    tool = shutil.which("compute-sanitizer") or shutil.which(INSTALLED_SANITIZER)
    if not tool:
        return [Outcome("compute-sanitizer", SKIPPED, "not installed here", 0.0)]
    command = pytest_command(backend, device, FEW, ["tests/test_cuda_same_bits.py"])
    outcomes = []
    for i, check in enumerate(SANITIZER_TOOLS):
        share = seconds / (len(SANITIZER_TOOLS) - i)
        # Each tensor an allocation of its own, or the checker does not see where one ends.
        outcome = run(
            f"compute-sanitizer {check}",
            [tool, "--tool", check, "--error-exitcode", "9", *command],
            share,
            PYTORCH_NO_CUDA_MEMORY_CACHING="1",
        )
        seconds -= outcome.seconds
        if outcome.status == UNFINISHED:  # it slows some machines down a hundredfold
            outcome = replace(outcome, status=SKIPPED)
        outcomes.append(outcome)
    return outcomes


def no_device():
    """Why there is no GPU to check, or None."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} (CUDA {torch.version.cuda}) sees none"
    major, minor = torch.cuda.get_device_capability()
    if major < 8:
        return f"{torch.cuda.get_device_name()} has compute capability {major}.{minor}, wanted 8.0"
    return None
