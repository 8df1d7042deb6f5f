# SPDX-License-Identifier: Apache-2.0
"""Code that runs in a Python of its own, with the package of this one as `sdo`: for what would harm
the tests' process, or be disturbed by it."""

import os
import subprocess
import sys
from pathlib import Path

PRELUDE = """
import importlib.util, os, sys, threading
import torch
spec = importlib.util.spec_from_file_location(
    "sdo", {file!r}, submodule_search_locations=[{folder!r}]
)
sdo = sys.modules["sdo"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sdo)
torch.set_num_threads({threads})
"""


def finished(sdo, code, *, threads=1, timeout=120):
    """What became of it. It has to end by itself, in time."""
    folder = str(Path(sdo.__file__).parent)
    prelude = PRELUDE.format(file=sdo.__file__, folder=folder, threads=threads)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return subprocess.run(
        [sys.executable, "-c", prelude + code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def run(sdo, code, **options):
    """What the code prints. It has to end well, with nothing to complain of."""
    result = finished(sdo, code, **options)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr[-2000:]
    return result.stdout
