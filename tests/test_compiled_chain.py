# SPDX-License-Identifier: Apache-2.0
"""benchmarks/compiled_chain.py: eager code under torch.compile, timed beside ours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "compiled_chain.py"
NO_COMPILER = "/no/such/compiler"

if not SCRIPT.exists():
    pytest.skip("the benchmarks are not in this copy of the tests", allow_module_level=True)


def rows(*arguments, **environment):
    """The cells of the table's rows, by column."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--vocab", "300", "--runs", "3", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    table = [line.strip("|").split("|") for line in done.stdout.splitlines() if "|" in line]
    [_, _, *found] = [[cell.strip() for cell in cells] for cells in table]
    return found


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
def test_compiled_code_is_timed_without_its_compilation(sdo, tmp_path):
    [cells] = rows("--only", "sample, greedy", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    *others, compiled, ratio, seconds = (float(cell.strip("x")) for cell in cells[2:])
    assert 0 < compiled < 1e6 * seconds / 10
    assert min(*others, ratio) > 0


def test_rows_that_cannot_be_compiled_say_why_and_the_table_goes_on(sdo, tmp_path):
    environment = {"CXX": NO_COMPILER, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    found = rows("--only", "sample, T .8, ", **environment)
    assert [cells[0][:15] for cells in found] == ["sample, T .8, k", "sample, T .8, p"]
    for cells in found:
        assert float(cells[2]) > 0 and float(cells[3]) > 0
        assert cells[5].startswith("not compiled: ") and NO_COMPILER in cells[5]
