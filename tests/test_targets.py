# SPDX-License-Identifier: Apache-2.0
"""The CPU targets: which one runs can be forced, and none changes a bit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).resolve().parent
ANSWER = """
import sys
import kernels, make_goldens
from goldens import GOLDENS
repo = "phanerozoic/spec-decode-ops"
sdo = kernels.get_kernel(repo, version=1, backend="cpu", trust_remote_code=True)
questions = make_goldens.questions()
wrong = [name for name, ask, what in questions if ask(sdo, "cpu", *what) != GOLDENS[name]]
sys.exit(f"differ: {wrong}" if wrong else 0)
"""


def run_with_target(target):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "packaging")])
    environment = dict(os.environ, SPEC_DECODE_OPS_CPU_TARGET=target, PYTHONPATH=path)
    return subprocess.run(
        [sys.executable, "-c", ANSWER], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def refusal(sdo):
    """What is said to somebody who asks for a target that no machine has."""
    return run_with_target("avx9")


def test_an_unknown_target_is_refused_with_the_list_of_those_there_are(refusal):
    assert refusal.returncode != 0
    assert 'this machine has no target "avx9" (have: ' in refusal.stderr
    assert "scalar)" in refusal.stderr


def test_the_forced_target_is_the_one_that_runs(sdo):
    before = sdo._cpu_target()
    try:
        for name in ("scalar", before):
            assert sdo._cpu_target(name) == name
            assert sdo._cpu_target() == name
    finally:
        sdo._cpu_target(before)


def test_a_target_that_this_machine_lacks_cannot_be_forced(sdo):
    before = sdo._cpu_target()
    with pytest.raises(RuntimeError, match='cpu_target: this machine has no target "avx9"'):
        sdo._cpu_target("avx9")
    assert sdo._cpu_target() == before


@pytest.fixture(scope="module")
def have(refusal):
    return re.search(r"have: ([\w, ]+)\)", refusal.stderr)[1].split(", ")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("penalty", [20.0, 0.5])
def test_every_cpu_target_mends_the_maxima_of_penalised_tokens(sdo, have, dtype, penalty):
    """Lane by lane: each tile holds a large logit that is penalised and a larger one that is not,
    and one place more is kept than there are tiles."""
    rows, tile, tiles = 64, 512, 40
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, tiles, tile, generator=generator) / 10
    places = torch.rand(rows, tiles, tile, generator=generator).topk(2).indices
    x.scatter_(2, places, torch.tensor([10.0, 11.0]).expand(rows, tiles, 2))
    x = x.reshape(rows, -1).to(dtype)
    penalised = places[..., 0] + tile * torch.arange(tiles)
    before, kept = sdo._cpu_target(), {}
    try:
        for target in have:
            sdo._cpu_target(target)
            kept[target] = sdo.filter_logits(
                x, top_k=tiles + 1, prev_tokens=penalised, repetition_penalty=penalty
            )
    finally:
        sdo._cpu_target(before)
    assert kept["scalar"].isfinite().sum(1).min() >= tiles + 1
    for target in have:
        assert torch.equal(kept[target], kept["scalar"]), target


def test_every_cpu_target_gives_the_frozen_tokens(have):
    for target in have:
        result = run_with_target(target)
        assert result.returncode == 0, f"{target}: {result.stderr[-500:]}"
