# SPDX-License-Identifier: Apache-2.0
"""`pip install .`: the library, compiled by packaging/native_library.py.

It is the CUDA library where nvcc and a CUDA torch are, or if SPEC_DECODE_OPS_CUDA=1 asks for it.
"""

import sys
from pathlib import Path

import setuptools
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent / "packaging"))

import cuda_toolkit
import native_library
from native_library import ROOT

if int(setuptools.__version__.split(".")[0]) < 77:
    raise SystemExit(
        f"setuptools {setuptools.__version__} is too old: pip install --upgrade setuptools "
        "(with --no-build-isolation pip builds with the one that is installed)"
    )

BACKEND = "cuda" if cuda_toolkit.wanted() else "cpu"
SOURCES = native_library.sources(BACKEND)

# Never the namespace of a Hub build: both may be loaded in one process.
NAMESPACE = f"_spec_decode_ops_{BACKEND}_pip"

SCRATCH = ROOT / ".build" / "pip" / BACKEND  # or the other library would come along
INPUTS = ["csrc/*", "torch-ext", "packaging"]


def names(paths):
    return [path.relative_to(ROOT).as_posix() for path in paths]


class BuildLibrary(build_ext):
    def build_extension(self, ext):
        kind = BACKEND.upper()
        print(f"spec-decode-ops: building the {kind} library ({len(SOURCES)} sources)", flush=True)
        library = Path(self.get_ext_fullpath(ext.name))
        native_library.build(library, NAMESPACE, BACKEND)
        (library.parent / "_ops.py").write_text(native_library.ops_module(NAMESPACE))


SCRATCH.mkdir(parents=True, exist_ok=True)
setup(
    ext_modules=[
        Extension(
            f"spec_decode_ops.{NAMESPACE}",
            sources=names(SOURCES),
            depends=names([path for folder in INPUTS for path in ROOT.glob(f"{folder}/*.*")]),
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildLibrary},
    options={
        "build": {"build_base": str(SCRATCH)},
        "egg_info": {"egg_base": str(SCRATCH)},
        "bdist_wheel": {"py_limited_api": "cp39"},
    },
)
