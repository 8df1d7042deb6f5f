# SPDX-License-Identifier: Apache-2.0
"""The model of GPU times: that it describes the kernels that are there, and keeps to its floors."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path.append(str(BENCHMARKS))

import gpu_inputs  # noqa: E402
import model  # noqa: E402
from model_cards import CARDS, card_named  # noqa: E402

EVERY = [
    (op, m, vocab, dtype)
    for op in model.OPS
    for m in model.ROWS
    for vocab in model.VOCABS
    for dtype in model.ITEM
]


def counted(package, emulated, op, vocab, dtype="float32"):
    """The emulator's counters of a call on one row of the kind that the model is of."""
    case = gpu_inputs.Case(op, 1, vocab, dtype, "normal")
    ours = gpu_inputs.Inputs(package, case, "cpu").ours(emulated.package, case)
    emulated.reset_counters()
    ours()
    return emulated.counters()


@pytest.mark.parametrize("op", model.OPS)
def test_the_model_has_the_launches_of_the_library(sdo, emulated, op):
    counters = counted(sdo, emulated, op, 4097)
    expected = model.launches(op, 1, 4097, "float32")
    blocks = [x * y * z for x, y, z in (launch.grid for launch in counters.launches)]
    assert blocks == [launch.blocks for launch in expected]


@pytest.mark.parametrize(
    "op, dtype, off",
    [
        ("sample, unfiltered", "float32", 0.1),
        ("sample, unfiltered", "bfloat16", 0.1),
        ("sample, top-k", "float32", 0.1),
        ("sample, full", "float32", 0.1),
        ("filter_logits, full", "float32", 0.15),
        ("verify, k=4, coupled", "float32", 0.1),
    ],
)
def test_the_instructions_are_those_that_the_emulator_counts(sdo, emulated, op, dtype, off):
    vocab = 32 * model.CHUNK
    instructions = counted(sdo, emulated, op, vocab, dtype).instructions
    said = sum(each.blocks * each.instructions for each in model.launches(op, 1, vocab, dtype))
    assert instructions == pytest.approx(said, rel=off)


@pytest.mark.parametrize("name", CARDS)
def test_no_time_is_under_the_floors(name):
    card = CARDS[name]
    for what in EVERY:
        time = model.predict(card, *what, cold=True)
        assert time >= model.LAUNCH * len(model.launches(*what))
        assert time >= model.bytes_needed(*what) / card.dram_gbs / 1e3 or what[0].startswith(
            "filter_logits"  # whose result may stay in L2
        )


@pytest.mark.parametrize("name", CARDS)
def test_more_work_takes_no_less_time(name):
    card = CARDS[name]
    for op, m, vocab, dtype in EVERY:
        time = model.predict(card, op, m, vocab, dtype)
        assert time <= model.predict(card, op, 2 * m, vocab, dtype)
        assert time <= model.predict(card, op, m, vocab + 50000, dtype)
        assert time <= model.predict(card, op, m, vocab, dtype, cold=True)


@pytest.mark.parametrize(
    "better", [{"dram_gbs": 9999}, {"ghz": 3.0}, {"l2_mb": 1e4}, {"multiprocessors": 400}]
)
def test_a_better_card_is_no_slower(better):
    for card in CARDS.values():
        for what in EVERY:
            cold = model.predict(replace(card, **better), *what, cold=True)
            assert cold <= model.predict(card, *what, cold=True)


def test_the_table_says_that_it_is_no_measurement():
    printed = subprocess.check_output(
        [sys.executable, str(BENCHMARKS / "model.py"), "--card", "L4"], text=True
    )
    assert printed.startswith("L4: predictions of a model")
    assert printed.count("\n") == 2 + len(EVERY) // len(model.ROWS)


@pytest.mark.parametrize(
    "device, card",
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA L40S", None),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_a_card_is_known_by_its_name(device, card):
    assert card_named(device) == (CARDS[card] if card else None)
