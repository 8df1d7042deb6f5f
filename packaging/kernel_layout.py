# SPDX-License-Identifier: Apache-2.0
"""`make kernel`: lay out build/<variant>/ as the Hub has it, for get_kernel through LOCAL_KERNELS.

Does only what is out of date: a library is named after its sources, so one that is there is good.
"""

import json
import platform
import re

import native_library
from native_library import ROOT

PACKAGE = ROOT / "torch-ext" / "spec_decode_ops"
VARIANT = ROOT / "build" / f"torch-stable-abi210-cpu-{platform.machine()}-linux"


def general():
    """`name`, `version` and `license` of build.toml (tomllib came only with Python 3.11)."""
    text = (ROOT / "build.toml").read_text()
    return dict(re.findall(r'^(name|version|license) = "?([^"\n]+)"?$', text, re.MULTILINE))


def identifier():
    """The name of the op namespace, and of the library's module, for these very sources."""
    return f"_spec_decode_ops_cpu_{native_library.source_digest()}"


def texts():
    """The text files of the layout: name -> content."""
    modules = {path.name: path.read_text() for path in PACKAGE.glob("*.py")}
    about = general()
    metadata = {
        "id": identifier(),
        "name": about["name"],
        "version": int(about["version"]),
        "license": about["license"],
        "python-depends": [],
        "backend": {"type": "cpu"},
    }
    return {
        **modules,
        "_ops.py": native_library.ops_module(identifier()),
        "metadata.json": json.dumps(metadata, indent=2) + "\n",
    }


def out_of_date():
    """The names of the files that are missing from the layout, changed or too many."""
    wanted = {**texts(), f"{identifier()}.abi3.so": None}
    present = {path.name: path for path in VARIANT.glob("*") if path.is_file()}
    changed = {
        name
        for name, text in wanted.items()
        if name in present and text is not None and present[name].read_text() != text
    }
    return sorted(changed | wanted.keys() ^ present.keys())


def lay_out():
    stale = out_of_date()
    library = VARIANT / f"{identifier()}.abi3.so"
    if library.name in stale:
        native_library.build(library, identifier())
    for name, text in texts().items():
        if name in stale:
            (VARIANT / name).write_text(text)
    for name in out_of_date():
        (VARIANT / name).unlink()
    print(f"{'laid out' if stale else 'up to date'}: {VARIANT.relative_to(ROOT)}")


if __name__ == "__main__":
    lay_out()
