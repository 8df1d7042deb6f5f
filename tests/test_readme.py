# SPDX-License-Identifier: Apache-2.0
"""The README is always true: its code runs, and it names the commands there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

if not README.exists():
    pytest.skip("the README is not in this copy of the tests", allow_module_level=True)

TEXT = README.read_text()


def test_every_block_of_python_runs(sdo):
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert len(blocks) >= 4
    names = {"sdo": sdo}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert len(names["ids"]) == 3 + 16


def test_its_make_targets_exist():
    rules = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for target in re.findall(r"(?:^|`)make (\w+)", TEXT, re.M):
        assert target in rules


def test_its_api_table_names_what_is_public(sdo):
    named = set(re.findall(r"^\| `(\w+)", TEXT, re.M))
    assert named | {"DecodeStats"} == set(sdo.__all__)
