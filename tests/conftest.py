# SPDX-License-Identifier: Apache-2.0
"""Tests use the package as the Hub lays it out: build/, loaded by get_kernel without a network."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import kernels
import pytest
import torch

try:
    import kernel_layout
except ImportError:  # the Hub builder's sandbox: it has the tests but not how we build
    kernel_layout = None
    collect_ignore = ["test_house.py", "test_packaging.py", "test_targets.py", "test_vector.py"]
    collect_ignore_glob = ["test_aarch64_*.py", "test_avx512_*.py", "test_cuda_*.py"]
    collect_ignore += ["test_gpu_check.py", "test_model.py", "test_redzones.py", "test_security.py"]
    collect_ignore += ["test_rows_read.py"]

REPO_ID = "phanerozoic/spec-decode-ops"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name.startswith(("test_cuda_", "test_gpu_", "test_model")):
            item.add_marker(pytest.mark.cuda)
        if item.path.name.startswith("test_aarch64_"):
            item.add_marker(pytest.mark.aarch64)
        if item.path.name.startswith("test_avx512_"):
            item.add_marker(pytest.mark.avx512)


@pytest.fixture(scope="session")
def sdo():
    """The package, as `get_kernel` gives it."""
    if kernel_layout is None:
        return kernels.get_kernel(REPO_ID, version=1, trust_remote_code=True)
    stale = kernel_layout.out_of_date()
    if stale:
        pytest.exit(f"build/ is out of date ({', '.join(stale)}): run `make kernel`", returncode=2)
    os.environ["LOCAL_KERNELS"] = f"{REPO_ID}={kernel_layout.ROOT}"
    # Under a CUDA torch the default would be a CUDA variant; build/ holds the CPU one.
    return kernels.get_kernel(REPO_ID, version=1, backend="cpu", trust_remote_code=True)


@pytest.fixture
def one_thread():
    """For models so small that threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def emulated():
    """The CUDA library as it is shipped, run by the emulator; on a machine without nvcc the test is
    skipped, but not in CI."""
    import cuda_toolkit

    if cuda_toolkit.nvcc() is None and not os.environ.get("CI"):
        pytest.skip("no nvcc: CUDA kernels cannot be compiled")
    from cuda_emulator import library

    return library.load("8.0")


@pytest.fixture
def counted(emulated):
    """Runs a call; its kernels by name, and the bytes it read of each argument."""

    def run(call):
        emulated.reset_counters()
        call(emulated.package)
        counters = emulated.counters()
        names = [
            launch.kernel.partition("(")[0].rpartition("::")[2] for launch in counters.launches
        ]
        return names, counters.bytes_read

    return run
