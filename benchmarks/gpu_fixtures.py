# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that lets the CUDA tests, which CI runs on an emulator, ask a GPU instead:

pytest --noconftest -p gpu_fixtures --package build/<variant> --device cuda tests/test_goldens.py
"""

import types

import gpu_package
import pytest


def pytest_addoption(parser):
    parser.addoption("--package", help="a variant's folder in build/")
    parser.addoption("--device", help="where tensors are sent")


@pytest.fixture(scope="session")
def on_device(request):
    option = request.config.getoption
    return gpu_package.OnDevice(gpu_package.load(option("--package")), option("--device"))


@pytest.fixture(scope="module")
def sdo(request, on_device):
    """On CPU tensors, to compare with; but the frozen answers are asked of the device."""
    if request.module.__name__ == "test_goldens":
        return on_device
    return gpu_package.load(request.config.getoption("--package"))


@pytest.fixture(scope="session")
def emulated(on_device):
    """In the emulator's place. A GPU has its own schedule, none to be set; and it has the time
    for as many draws as the CPU's statistics take."""
    return types.SimpleNamespace(
        package=on_device, configure=lambda schedule=0: None, draws=1 << 22
    )
