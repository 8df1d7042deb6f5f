# SPDX-License-Identifier: Apache-2.0
"""`python -m spec_law` and its README: what they promise to others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
README = TESTS / "spec_law" / "README.md"

VERIFIERS = """
from spec_law.biased import subtracts_nothing as biased
from spec_law.rules import token_rule as exact


def in_floats(p_rows, q_rows, tokens, uniforms):
    return biased(p_rows, q_rows, tokens, [u + 0.0 for u in map(float, uniforms)])
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    file = tmp_path_factory.mktemp("verifiers") / "mine.py"
    file.write_text(VERIFIERS)

    def judge(name, *options):
        command = [sys.executable, "-m", "spec_law", f"{file}:{name}", "--setups", "60", *options]
        environment = dict(os.environ, PYTHONPATH=str(TESTS))
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return judge


def test_an_exact_verifier_passes(run):
    result = run("exact")
    assert (result.returncode, "no bias found" in result.stdout) == (0, True), result.stderr


@pytest.mark.parametrize("name, options", [("biased", []), ("in_floats", ["--numbers"])])
def test_a_biased_one_fails_and_is_told_why(run, name, options):
    result = run(name, *options)
    assert result.returncode == 1, result.stderr
    assert "total variation 1/4 over 1 token(s), k = 1" in result.stdout
    assert "residual, position 0" in result.stdout


def test_a_verifier_that_needs_numbers_is_told_to_say_so(run):
    result = run("in_floats")
    assert "is measured by spec_law.boxes" in result.stderr


@pytest.mark.skipif(not README.exists(), reason="the README is not in this copy of the tests")
def test_every_block_of_python_in_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    runnable = [block for block in blocks if "import" in block]
    assert runnable
    for block in runnable:
        exec(compile(block, str(README), "exec"), {})


def test_the_kit_needs_only_the_standard_library():
    """With torch where a compiled verifier is met."""
    for path in (TESTS / "spec_law").glob("*.py"):
        imported = re.findall(r"^\s*(?:import|from) ([\w.]+)", path.read_text(), re.M)
        allowed = {*sys.stdlib_module_names, "torch" if path.stem == "compiled" else ""}
        outside = [name for name in imported if not name.startswith(".")]
        assert {name.split(".")[0] for name in outside} <= allowed, path.name
