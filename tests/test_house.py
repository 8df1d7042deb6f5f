# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that can be read off the tree, without building anything."""

import ast
import re
import subprocess
import sys

import cuda_toolkit
import kernel_layout
import native_library

ROOT = native_library.ROOT
PACKAGE = kernel_layout.PACKAGE
FOLDERS = ["csrc", "torch-ext", "packaging", "tests", "benchmarks", "examples"]
CPP_SUFFIXES = {".cpp", ".h", ".cu", ".cuh"}
MAX_LINES = 400
CUDA_SECTION = "kernel.spec_decode_ops_cuda"


def files_in(*folders, suffixes):
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return [path for path in found if path.suffix in suffixes and path.name != "_ops.py"]


def name(path):
    return path.relative_to(ROOT).as_posix()


CPP = files_in("csrc", "torch-ext", suffixes=CPP_SUFFIXES)
CODE = [
    *files_in(*FOLDERS, suffixes={*CPP_SUFFIXES, ".py"}),
    *(ROOT / file for file in ("setup.py", "Makefile", ".ci/run", "flake.nix")),
    *(ROOT / file for file in ("build.toml", "pyproject.toml", ".clang-format")),
    ROOT / ".pre-commit-config.yaml",
    *sorted(ROOT.glob("*/requirements*.txt")),
]
MODULES = files_in("torch-ext/spec_decode_ops", suffixes={".py"})


def build_toml(key):
    """The arrays called `key` of build.toml, by section."""
    sections = re.split(r"^\[(.+)\]$", (ROOT / "build.toml").read_text(), flags=re.MULTILINE)
    arrays = {}
    for section, text in zip(sections[1::2], sections[2::2]):
        array = re.search(rf"^{key} = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
        if array:
            arrays[section] = re.findall(r'"([^"]+)"', array[1])
    return arrays


def test_a_folder_is_what_a_file_may_know():
    check = subprocess.run(["make", "layering"], cwd=ROOT, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


def test_the_hub_builder_accepts_build_toml():
    from kernels._rust import Backend, Build

    assert Build.open(ROOT).general.backends == [Backend.CPU, Backend.CUDA]


def test_build_toml_lists_every_source_and_header():
    """The sandbox holds no other; and no variant is given a file twice."""
    listed = build_toml("src")
    assert {file for files in listed.values() for file in files} == set(map(name, CPP))
    for section, files in listed.items():
        variant = files if section == "torch" else listed["torch"] + files
        assert len(variant) == len(set(variant))


def test_both_builds_compile_the_same_sources_with_the_flags_that_decide_bits():
    listed, cxx_flags = build_toml("src"), build_toml("cxx-flags")
    sections = {"torch": native_library.SOURCES, CUDA_SECTION: native_library.CUDA_SOURCES}
    for section, sources in sections.items():
        compiled = {file for file in listed[section] if file.endswith((".cpp", ".cu"))}
        assert compiled == set(map(name, sources))
        assert "-ffp-contract=off" in cxx_flags[section]
        assert set(cxx_flags[section]) <= set(native_library.FLAGS)
    assert not [flag for flag in native_library.FLAGS if flag.startswith("-m") or "fast" in flag]


def test_both_builds_give_nvcc_the_flags_that_decide_bits():
    def split(flags):
        return {part for flag in flags for part in flag.replace("-Xcompiler=", "").split(",")}

    hub, ours = split(build_toml("cuda-flags")[CUDA_SECTION]), split(cuda_toolkit.FLAGS)
    assert {"-fmad=false", "-ffp-contract=off"} <= hub <= ours
    assert not [flag for flag in ours if "fast" in flag]
    assert build_toml("cuda-capabilities")[CUDA_SECTION] == cuda_toolkit.capabilities()


def test_version_numbers_agree():
    hub = kernel_layout.general()["version"]
    project = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    changes = re.search(r"^## Version (\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert project[1].split(".")[0] == hub
    assert changes[1] == hub


def test_the_package_needs_only_the_standard_library_and_torch():
    """spec_generate, which transformers calls, imports it where it runs."""
    for path in MODULES:
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            allowed = {*sys.stdlib_module_names, "torch"}
            if path.name == "spec_generate.py" and node not in tree.body:
                allowed.add("transformers")
            if isinstance(node, ast.Import):
                imported = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported = {node.module.split(".")[0]}
            else:
                continue
            assert imported <= allowed, f"{name(path)}, line {node.lineno}"


def test_all_is_literal():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    assigned = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]
    ]
    assert len(assigned) == 1
    assert all(isinstance(public, str) for public in ast.literal_eval(assigned[0]))


def test_the_tools_of_lint_are_pinned():
    lines = (ROOT / "tests" / "requirements-lint.txt").read_text().splitlines()
    tools = [line for line in lines if not line.startswith("#")]
    assert {tool.partition("==")[0] for tool in tools} == {"clang-format", "mypy", "ruff"}
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", tool) for tool in tools)


def code_where(wrong):
    return [name(path) for path in CODE if wrong(path.read_text())]


def test_the_licence_stands_at_the_top():
    licence = "SPDX-License-Identifier: Apache-2.0"
    assert code_where(lambda text: licence not in "".join(text.split("\n")[:3])) == []


def test_nothing_is_left_for_later():
    # Spelled with brackets, or this file would not pass its own test.
    marker = r"\b([T]ODO|[F]IXME|[X]XX|[H]ACK)\b|^([<]{7}|[>]{7}) "
    assert code_where(lambda text: re.search(marker, text, re.MULTILINE)) == []


def test_a_file_is_short_enough_to_read():
    long = code_where(lambda text: text.count("\n") > MAX_LINES)
    assert [file for file in long if not file.startswith("tests/data/")] == []


def test_an_op_has_its_schema_kernel_test_and_benchmark():
    """`grep -rl verify` finds them all: one concept, one stem."""
    binding = (ROOT / "torch-ext" / "torch_binding.cpp").read_text()
    ops = re.findall(r'def\("(\w+)"', binding)
    assert ops
    for op in ops:
        for folder in ("csrc/cpu", "torch-ext/spec_decode_ops", "tests", "benchmarks"):
            texts = (path.read_text() for path in files_in(folder, suffixes={*CPP_SUFFIXES, ".py"}))
            assert any(re.search(rf"\b{op}\b", text) for text in texts), f"no {op} in {folder}"
