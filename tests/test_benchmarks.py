# SPDX-License-Identifier: Apache-2.0
"""`kernels benchmark` runs what benchmarks/ has for it, and the pictures show what is measured."""

import json
import os
import re
import sys
from pathlib import Path

import fit
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS, DOCS = ROOT / "benchmarks", ROOT / "docs"

if not DOCS.exists():
    pytest.skip("the pictures are not in this copy of the tests", allow_module_level=True)

sys.path.append(str(BENCHMARKS))

import accepted_lengths  # noqa: E402
from kernels.cli import benchmark as runner  # noqa: E402

MOST_BYTES = 300_000


@pytest.mark.parametrize("name", ["OneSequence", "Batch"])
def test_kernels_benchmark_runs_and_verifies_every_op(sdo, name, one_thread):
    script = BENCHMARKS / "benchmark.py"
    here = os.getcwd()
    [found] = [c for c in runner.discover_benchmark_classes(script, ROOT) if c.__name__ == name]
    results, _ = runner.run_benchmark_class(found, 1, 0, str(ROOT), True, "local")
    assert os.getcwd() == here
    assert {"sample", "filter_logits", "verify", "accept", "verify_greedy"} <= set(results)
    assert all(timing.verified and timing.ref_mean_ms > 0 for timing in results.values())


def test_the_benchmark_refuses_a_token_that_the_filters_mask(sdo):
    [found] = [
        c
        for c in runner.discover_benchmark_classes(BENCHMARKS / "benchmark.py", ROOT)
        if c.__name__ == "OneSequence"
    ]
    case = found()
    case.kernel = sdo
    case.setup()
    case.out = case.x.argmin(-1)
    assert not torch.equal(case.verify_sample(), case.out)


def test_the_rounds_that_are_drawn_follow_the_law_beside_them(sdo):
    """A right verifier fails with probability 1e-6; one whose draft is another fails."""
    target, draft = accepted_lengths.models()
    counts = torch.bincount(accepted_lengths.lengths(sdo), minlength=accepted_lengths.DRAFTS + 1)
    assert counts.sum() == accepted_lengths.ROUNDS
    assert fit.misfit(counts, accepted_lengths.law(target, draft)) < 1
    closer = (target[: len(draft)] + draft) / 2
    assert fit.misfit(counts, accepted_lengths.law(target, closer)) > 1


def test_pictures_are_there_and_small():
    shown = [
        picture
        for page in ("README.md", "CARD.md")
        for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / page).read_text())
    ]
    assert shown
    assert all((ROOT / picture).exists() for picture in shown)
    assert all(path.stat().st_size < MOST_BYTES for path in DOCS.iterdir())


def test_the_plotted_times_say_where_they_are_from():
    results = json.loads((DOCS / "sweep.json").read_text())
    assert {"cpu", "target", "torch", "threads", "date"} <= set(results["machine"])
    for row in results["by_vocab"] + results["by_batch"]:
        assert min(row["ours_us"], row["eager_us"], row["floor_us"]) > 0
