# SPDX-License-Identifier: Apache-2.0
"""`make kernel`: lay out build/<variant>/ as the Hub has it, for get_kernel through LOCAL_KERNELS.

Lays out the variant of each backend that is named, or "cpu", and "cuda" where it can be built for
this torch. Does only what is out of date: a library is named after its sources, so one that is
there is good.
"""

import json
import re
import sys

import cuda_toolkit
import native_library
from native_library import ROOT

PACKAGE = ROOT / "torch-ext" / "spec_decode_ops"


def variant(backend="cpu"):
    """The folder of a backend's variant."""
    if backend == "cuda":
        backend = "cu{}{}".format(*cuda_toolkit.version())
    return ROOT / "build" / f"torch-stable-abi210-{backend}-{native_library.machine()}-linux"


VARIANT = variant()


def general():
    """`name`, `version` and `license` of build.toml (tomllib came only with Python 3.11)."""
    text = (ROOT / "build.toml").read_text()
    return dict(re.findall(r'^(name|version|license) = "?([^"\n]+)"?$', text, re.MULTILINE))


def identifier(backend="cpu"):
    """The name of the op namespace, and of the library's module, for these very sources."""
    return f"_spec_decode_ops_{backend}_{native_library.source_digest(backend)}"


def library(backend="cpu"):
    return variant(backend) / f"{identifier(backend)}.abi3.so"


def texts(backend="cpu"):
    """The text files of the layout: name -> content."""
    modules = {path.name: path.read_text() for path in PACKAGE.glob("*.py")}
    about = general()
    metadata = {
        "id": identifier(backend),
        "name": about["name"],
        "version": int(about["version"]),
        "license": about["license"],
        "python-depends": [],
        "backend": {"type": backend},
    }
    if backend == "cuda":
        metadata["backend"]["archs"] = cuda_toolkit.capabilities()
    return {
        **modules,
        "_ops.py": native_library.ops_module(identifier(backend)),
        "metadata.json": json.dumps(metadata, indent=2) + "\n",
    }


def out_of_date(backend="cpu"):
    """The names of the files that are missing from the layout, changed or too many."""
    wanted = {**texts(backend), library(backend).name: None}
    present = {path.name: path for path in variant(backend).glob("*") if path.is_file()}
    changed = {
        name
        for name, text in wanted.items()
        if name in present and text is not None and present[name].read_text() != text
    }
    return sorted(changed | wanted.keys() ^ present.keys())


def lay_out(backend="cpu"):
    stale = out_of_date(backend)
    folder = variant(backend)
    if library(backend).name in stale:
        native_library.build(library(backend), identifier(backend), backend)
    for name, text in texts(backend).items():
        if name in stale:
            (folder / name).write_text(text)
    for name in out_of_date(backend):
        (folder / name).unlink()
    print(f"{'laid out' if stale else 'up to date'}: {folder.relative_to(ROOT)}")


if __name__ == "__main__":
    for backend in sys.argv[1:] or ["cpu", *(["cuda"] if cuda_toolkit.wanted() else [])]:
        lay_out(backend)
