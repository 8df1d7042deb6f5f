# SPDX-License-Identifier: Apache-2.0
"""The package's Python over other ops than those it is built with."""

import importlib.util
import sys
import types

from native_library import ROOT

PACKAGE = ROOT / "torch-ext" / "spec_decode_ops"


def package_over(namespace, ops):
    """Loaded anew, as spec_decode_ops{namespace}; `ops` are those of torch's namespace."""
    name = f"spec_decode_ops{namespace}"
    own = types.ModuleType(f"{name}._ops")
    own.ops = ops
    own.add_op_namespace_prefix = lambda op_name: f"{namespace}::{op_name}"
    spec = importlib.util.spec_from_file_location(
        name, PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[name], sys.modules[own.__name__] = package, own
    package._ops = own
    spec.loader.exec_module(package)
    return package
