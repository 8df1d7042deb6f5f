# SPDX-License-Identifier: Apache-2.0
"""Names, one a line, the tools that building from source needs and this machine lacks."""

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig


def missing_tools():
    """(what is missing, the Debian package that has it)"""
    compiler = shlex.split(os.environ.get("CXX", "g++"))[0]
    if not all(importlib.util.find_spec(module) for module in ("venv", "ensurepip")):
        yield "Python's venv module", "python3-venv"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        yield "Python.h, Python's header", "python3-dev"
    if not shutil.which(compiler):
        yield f"{compiler}, the C++ compiler", "g++"
    if not shutil.which("make"):
        yield "make", "make"


if __name__ == "__main__":
    missing = list(missing_tools())
    for tool, package in missing:
        print(f"Missing: {tool}. On Debian or Ubuntu: apt-get install {package}", file=sys.stderr)
    sys.exit(bool(missing))
