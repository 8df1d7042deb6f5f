# SPDX-License-Identifier: Apache-2.0
"""The built library and its three ways in: get_kernel, pip, and both at once."""

import os
import subprocess
import sys
from pathlib import Path

import kernel_layout
import native_library
import pytest
from conftest import REPO_ID

LIBRARY = kernel_layout.VARIANT / f"{kernel_layout.identifier()}.abi3.so"
OFFLINE = {
    **os.environ,
    "HF_HUB_OFFLINE": "1",
    "LOCAL_KERNELS": f"{REPO_ID}={native_library.ROOT}",
}
# What torch's headers read when this machine's compiler is newer than manylinux_2_28's, which the
# Hub's builder uses: the flag of shared_ptr, and the string streams of its error messages.
FROM_A_NEWER_COMPILER = {
    "__libc_single_threaded",
    "_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev",
    "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev",
}
# Under a CPU torch the call is the one users make. A CUDA torch asks for a CUDA variant first.
LOAD = f"""
import torch
import kernels
backend = "cpu" if torch.version.cuda else None
hub = kernels.get_kernel("{REPO_ID}", version=1, backend=backend, trust_remote_code=True)
"""


def run(code, cwd):
    """What `code` prints in a Python of its own, away from the source tree."""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=cwd, env=OFFLINE, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def symbols():
    """(kind, name) of the library's dynamic symbols."""
    listing = subprocess.check_output(["nm", "-D", "--defined-only", LIBRARY], text=True)
    return [tuple(line.split()[-2:]) for line in listing.splitlines()]


def test_get_kernel_loads_the_local_build_without_a_network(sdo, tmp_path):
    code = LOAD + "print(hub.__file__, *hub.sample(torch.tensor([[0.0, 9.0]]), 0.0).tolist())"
    file, token = run(code, tmp_path).split()
    assert Path(file).parent == kernel_layout.VARIANT
    assert token == "1"


def test_the_pip_and_hub_builds_live_in_one_process(sdo, tmp_path):
    code = """
import spec_decode_ops as pip
logits = torch.linspace(0, 1, 50).expand(3, 50)
assert pip.__file__ != hub.__file__
print(pip.sample(logits, seed=7).tolist() == hub.sample(logits, seed=7).tolist())
"""
    for both in (LOAD + code, "import torch, spec_decode_ops\n" + LOAD + code):
        assert run(both, tmp_path).strip() == "True"


def test_import_takes_under_200_ms_beyond_torch(tmp_path):
    code = """
import time
import torch
start = time.perf_counter()
import spec_decode_ops
print(time.perf_counter() - start)
"""
    assert min(float(run(code, tmp_path)) for _ in range(3)) < 0.2


def test_the_library_is_under_2_mb(sdo):
    assert LIBRARY.stat().st_size < 2_000_000


def test_the_library_needs_only_python_39_and_manylinux_2_28(sdo):
    from kernel_abi_check import ObjectFile

    library = ObjectFile(LIBRARY)
    assert not library.check_python_abi("3.9")
    too_new = {symbol.name for symbol in library.check_manylinux("manylinux_2_28")}
    assert too_new <= FROM_A_NEWER_COMPILER


def test_the_library_shows_only_its_entry(sdo):
    assert [kind for kind, _ in symbols() if kind == "u"] == []
    assert [symbol for _, symbol in symbols()] == [f"PyInit_{kernel_layout.identifier()}"]


@pytest.mark.slow
@pytest.mark.parametrize("source", native_library.SOURCES, ids=lambda path: path.name)
def test_the_sources_are_cpp20_too(source):
    """torch builds extensions as C++20 from 2.12 on."""
    command = native_library.compile_command(source, "spec_decode_ops")
    subprocess.run([*command, "-std=c++20", "-fsyntax-only", "-Werror"], check=True)
