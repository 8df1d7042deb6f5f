# SPDX-License-Identifier: Apache-2.0
"""The package from a folder of build/, without the `kernels` package; and one whose tensors go to a
device and come back, so that tests written for CPU tensors ask a GPU."""

import importlib.util
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
kernel_layout = importlib.import_module("kernel_layout")


def load(folder):
    """The package in a laid out variant's folder."""
    name = f"laid_out_{Path(folder).name.replace('-', '_')}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            name, Path(folder) / "__init__.py", submodule_search_locations=[str(folder)]
        )
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def moved(x, device):
    """A copy with the strides and the storage offset of the original."""
    storage = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    return storage.to(device, copy=True).as_strided(x.shape, x.stride(), x.storage_offset())


def each_tensor(change, value):
    if torch.is_tensor(value):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)(each_tensor(change, item) for item in value)
    if isinstance(value, dict):
        return {key: each_tensor(change, item) for key, item in value.items()}
    return value


class OnDevice:
    """What `inner` has, called with copies of its tensors on a device; results come back."""

    def __init__(self, inner, device):
        self._inner, self._device = inner, device

    def __getattr__(self, name):
        function = getattr(self._inner, name)
        if name in ("_ops", "ops"):
            return OnDevice(function, self._device)

        def call(*arguments, **named):
            def there(x):
                return moved(x, self._device)

            result = function(*each_tensor(there, arguments), **each_tensor(there, named))
            return each_tensor(lambda x: x.cpu(), result)

        return call

    def _accept_with_uniforms(self, *given, normalized=False):
        """As tensors, since a GPU's results are."""
        *given, uniforms = given
        return self.accept(*given, uniforms=uniforms, normalized=normalized)
