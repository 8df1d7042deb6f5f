# SPDX-License-Identifier: Apache-2.0
"""benchmarks/gpu_check.py, tried without a GPU: its stages, its report, and what it never says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path.append(str(BENCHMARKS))

import gpu_check  # noqa: E402
import gpu_clock  # noqa: E402
import gpu_inputs  # noqa: E402
import gpu_package  # noqa: E402
import gpu_report  # noqa: E402
import gpu_stages  # noqa: E402
import model  # noqa: E402

MARK = "CPU self-test, not a GPU time"


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "gpu_check.py"), *arguments],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def self_test(sdo, tmp_path_factory):
    """(what was printed, the report, the files) of one self-test."""
    out = tmp_path_factory.mktemp("report")
    done = run("--self-test", "--minutes", "3", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.json")
    return done.stdout, json.loads(path.read_text()), path


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_measures_nothing():
    done = run()
    assert done.returncode == 2
    assert done.stderr.startswith("no CUDA device: ")
    assert done.stdout == ""


def test_the_self_test_goes_through_all_stages(self_test):
    _, report, _ = self_test
    statuses = {stage["stage"]: stage["status"] for stage in report["stages"]}
    assert statuses == {
        "build": "passed",
        "frozen answers and the CPU's bits": "passed",
        "compute-sanitizer": "skipped",
    }


def test_the_self_test_times_every_op(self_test):
    _, report, _ = self_test
    timed = [row for row in report["rows"] if "error" not in row]
    assert {row["op"] for row in timed} == set(model.OPS)
    assert all(row["graph_us"] > 0 and row["eager_us"] > 0 for row in timed)
    assert [row for row in report["rows"] if "error" in row] == []
    assert any("eager" in row.get("rivals", {}) for row in timed)


def test_a_time_of_a_cpu_is_never_called_a_gpus(self_test):
    printed, report, path = self_test
    assert printed.startswith(MARK)
    assert report["about"]["times"] == MARK
    assert MARK in path.with_suffix(".txt").read_text()
    assert path.name.startswith("CPU-self-test")
    assert not any("model_us" in row for row in report["rows"])
    assert not list((BENCHMARKS / "results").glob("CPU*"))


def test_what_there_was_no_time_for_is_named():
    table = gpu_check.Table(gpu_clock.CpuClock(), None, "cpu", None)
    cases = gpu_inputs.main_cases(gpu_inputs.TINY)
    table.time(cases, gpu_stages.Budget(0), main=True)
    assert table.rows == []
    assert table.left_out == [
        f"{len(cases)} of {len(cases)} main rows, from `{cases[0]}` on: no time"
    ]


def test_every_row_of_the_product_is_planned_once_and_the_main_ones_first():
    sizes = gpu_inputs.FULL_SIZE
    planned = gpu_inputs.main_cases(sizes) + gpu_inputs.other_cases(sizes)
    assert len(set(planned)) == len(planned)
    assert len(planned) == len(model.OPS) * 4 * 4 * 2 * 5
    assert {case.family for case in planned} == set(gpu_inputs.FAMILIES)


@pytest.mark.parametrize("status, code", [("passed", 0), ("failed", 1), ("unfinished", 1)])
def test_a_check_that_did_not_pass_is_a_failed_run(status, code):
    outcome = gpu_stages.Outcome("tests", status, "", 0.0)
    assert gpu_check.exit_code([outcome], []) == code


def test_tokens_of_a_graph_that_differ_are_a_failed_run(sdo):
    class OtherTokens(gpu_clock.CpuClock):
        def graph(self, call, deterministic=False):
            count = iter(range(100))
            return super().graph(lambda: torch.tensor(next(count)), deterministic)

    case = gpu_inputs.Case("sample, top-k", 1, 999, "float32", "normal")
    row, _ = gpu_check.time_case(OtherTokens(), sdo, case, "cpu", None, 1.0, cold=False)
    assert "AssertionError" in row["error"]
    assert gpu_check.exit_code([], [row]) == 1
    assert row["error"] in gpu_report.line(row)


def test_a_stage_that_fails_or_takes_too_long_is_told_apart():
    failing = gpu_stages.run("s", [sys.executable, "-c", "raise SystemExit(3)"], 30)
    slow = gpu_stages.run("s", [sys.executable, "-c", "import time; time.sleep(30)"], 1)
    assert (failing.status, slow.status) == ("failed", "unfinished")


def test_a_tensor_sent_to_a_device_keeps_its_layout():
    x = torch.randn(4, 50)[1:, 3:-2]
    for given in (x, x[:1].expand(3, 45), torch.empty(0, 9), x.bfloat16()):
        there = gpu_package.moved(given, "cpu")
        assert torch.equal(there, given)
        assert (there.stride(), there.storage_offset()) == (given.stride(), given.storage_offset())
        assert not given.numel() or there.data_ptr() != given.data_ptr()


def test_the_package_on_a_device_gives_the_packages_results(sdo):
    there = gpu_package.OnDevice(sdo, "cpu")
    x = torch.randn(3, 999)
    assert torch.equal(there.sample(x, seed=1), sdo.sample(x, seed=1))
    verified = there.verify(x[None], None, torch.tensor([[5, 7]]), seed=torch.tensor([2]))
    for a, b in zip(verified, sdo.verify(x[None], None, torch.tensor([[5, 7]]), seed=2)):
        assert torch.equal(a, b)
