# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md: the package opens no file, uses no network, starts no process, unpickles nothing."""

import ast
import re
import subprocess

import kernel_layout
import native_library
import own_process
import pytest

MODULES = sorted(kernel_layout.PACKAGE.glob("*.py"))
SOURCES = [*native_library.SOURCES, *native_library.KERNEL_HEADERS, *native_library.BINDING_HEADERS]
SOURCES += [*native_library.CUDA_SOURCES, *native_library.CUDA_HEADERS]

IMPORTED = {"collections", "dataclasses", "operator", "sys", "time", "typing", "torch"}
IMPORTED |= {"transformers"}
BUILT_IN = {"open", "eval", "exec", "compile", "input", "breakpoint", "globals", "vars"}
ATTRIBUTES = {"load", "loads", "save", "dump", "dumps", "hub", "jit", "ops_library", "from_file"}
ATTRIBUTES |= {"tofile", "fromfile", "load_library", "environ", "getenv", "system", "modules"}


def suspicious(text):
    """What of a module's text may reach out of the process, by the names it uses."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} - IMPORTED
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {node.module.split(".")[0]} - IMPORTED
        elif isinstance(node, ast.Name):
            found |= {node.id} & BUILT_IN
            found |= {node.id} if node.id.startswith("__import") else set()
        elif isinstance(node, ast.Attribute):
            found |= {node.attr} & ATTRIBUTES
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_no_module_names_what_reaches_out(module):
    assert suspicious(module.read_text()) == set()


@pytest.mark.parametrize(
    "text, name",
    [
        ("import socket", "socket"),
        ("from urllib.request import urlopen", "urllib"),
        ("import torch, pickle", "pickle"),
        ("import os", "os"),
        ("def f(path):\n    with open(path) as file:\n        return file", "open"),
        ("f = [eval][0]", "eval"),
        ("torch.load(path)", "load"),
        ("__import__('os')", "__import__"),
        ("sys.modules['os']", "modules"),
    ],
)
def test_what_reaches_out_is_noticed(text, name):
    assert suspicious(text) == {name}


HEADERS = {
    "algorithm",
    "array",
    "atomic",
    "cfenv",
    "cmath",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
}
HEADERS |= {"initializer_list", "new", "optional", "stdexcept", "string", "tuple", "type_traits"}
HEADERS |= {"utility", "pthread.h", "Python.h", "immintrin.h", "xmmintrin.h", "arm_neon.h"}
HEADERS |= {"sanitizer/asan_interface.h", "torch/", "cuda", "cub/", "limits", "vector"}


def test_no_source_includes_what_reaches_out():
    for source in SOURCES:
        included = re.findall(r"^#include <(.+)>", source.read_text(), re.MULTILINE)
        outside = [each for each in included if not each.startswith(tuple(HEADERS))]
        assert outside == [], source.name


# Memory, strings, exceptions, threads; one environment variable.
OF_C = r"aligned_alloc|free|malloc|realloc|mem\w+|str\w+|snprintf|fmaf|getenv|pthread_\w+"
EXPECTED = re.compile(rf"({OF_C}|Py\w+|aoti_\w+|torch_\w+|_Z\w+|__\w+|_ITM_\w+|_Unwind_\w+)(@.*)?")
STREAMS = re.compile("filebuf|fstream|filesystem|random_device|__(open|read|write|fopen)")


def test_the_library_asks_the_system_for_nothing_that_reaches_out(sdo):
    library = kernel_layout.library()
    listing = subprocess.check_output(["nm", "-D", "--undefined-only", library], text=True)
    asked = [line.split()[-1] for line in listing.splitlines()]
    assert "getenv" in {symbol.split("@")[0] for symbol in asked}
    assert [symbol for symbol in asked if not EXPECTED.fullmatch(symbol)] == []
    assert [symbol for symbol in asked if STREAMS.search(symbol)] == []
    for reaching in ("open@GLIBC_2.2.5", "socket", "dlopen", "execve", "system", "fopen64"):
        assert not EXPECTED.fullmatch(reaching)


AUDIT = """
def everything():
    logits = torch.linspace(-1, 1, 4 * 33).view(4, 33)
    target, tokens = logits[:3], torch.tensor([3, 4])
    sdo.sample(logits, 0.8, top_p=0.9)
    sdo.filter_logits(logits, top_k=5, validate=True)
    sdo.verify(target[None], None, tokens[None], 0.9)
    sdo.accept(target.softmax(-1), target[:2].softmax(-1), tokens)
    sdo.verify_greedy(target, tokens)
    sdo.Sampler(0.7)(logits)
    sdo.reference.filter_logits(logits, 0.8, top_p=0.9)
    def target_step(prefix, proposed):
        return logits[: len(proposed) + 1].softmax(-1)
    decoder = sdo.SpeculativeDecoder(sdo.PromptLookup(), target_step, k=3, greedy=False)
    decoder.generate([1, 2, 1], 9)

everything()  # what torch itself puts off until then
seen, watching = set(), True
sys.addaudithook(lambda event, arguments: seen.add(event) if watching else None)
everything()
watching = False
print(*sorted(seen))
"""
HARMLESS = {"sys._getframe", "object.__getattr__", "cpython.run_startup"}


def test_python_reports_no_file_network_process_or_pickle_while_all_functions_run(sdo):
    assert set(own_process.run(sdo, AUDIT).split()) <= HARMLESS


def test_python_reports_a_file_that_is_opened(sdo):
    opened = AUDIT.replace(
        "    sdo.verify_greedy", "    open(os.devnull).close()\n    sdo.verify_greedy"
    )
    assert "open" in own_process.run(sdo, opened).split()
