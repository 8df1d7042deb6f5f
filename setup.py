# SPDX-License-Identifier: Apache-2.0
"""`pip install .`: the CPU library, compiled by packaging/native_library.py."""

import sys
from pathlib import Path

import setuptools
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent / "packaging"))

import native_library
from native_library import HEADERS, ROOT, SOURCES

if int(setuptools.__version__.split(".")[0]) < 77:
    raise SystemExit(
        f"setuptools {setuptools.__version__} is too old: pip install --upgrade setuptools "
        "(with --no-build-isolation pip builds with the one that is installed)"
    )

# Never the namespace of a Hub build: both may be loaded in one process.
NAMESPACE = "_spec_decode_ops_cpu_pip"

SCRATCH = ROOT / ".build" / "pip"


def names(paths):
    return [path.relative_to(ROOT).as_posix() for path in paths]


class BuildLibrary(build_ext):
    def build_extension(self, ext):
        print(f"spec-decode-ops: building the CPU library ({len(SOURCES)} sources)", flush=True)
        library = Path(self.get_ext_fullpath(ext.name))
        native_library.build(library, NAMESPACE)
        (library.parent / "_ops.py").write_text(native_library.ops_module(NAMESPACE))


SCRATCH.mkdir(parents=True, exist_ok=True)
setup(
    ext_modules=[
        Extension(
            f"spec_decode_ops.{NAMESPACE}",
            sources=names(SOURCES),
            depends=names([*HEADERS, *ROOT.glob("packaging/*.*")]),
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
