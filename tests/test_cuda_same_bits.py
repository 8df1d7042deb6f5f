# SPDX-License-Identifier: Apache-2.0
"""The CUDA library, run by the emulator as it is shipped, gives the CPU's bits: tokens, kept sets,
accepted lengths; by either algorithm, whatever the schedule, layout and batch order."""

import functools
import itertools
from fractions import Fraction

import cases
import numpy as np
import pytest
import torch
from cases import DTYPES, FAMILIES, FILTERS, INF, LAYOUTS, NAN, history, rows, same_bits
from oracle import oracle

with_history = functools.partial(cases.with_history, length=12)
ALGORITHMS = ["select", "sort"]
SMALL = [1, 2, 31, 999, 1024, 4097]
LARGE = [32000, 50257, 128256]
SEED, OFFSET = -7, (1 << 59) + 3


@pytest.fixture(autouse=True)
def in_order(emulated):
    yield
    emulated.configure()


def assert_same_row_ops(sdo, emulated, x, algorithm, **arguments):
    """sample and filter_logits of the same rows."""
    here = sdo.sample(x, seed=SEED, offset=OFFSET, **arguments)
    there = emulated.package.sample(x, seed=SEED, offset=OFFSET, algorithm=algorithm, **arguments)
    assert torch.equal(here, there)
    here = sdo.filter_logits(x, **arguments)
    there = emulated.package.filter_logits(x, algorithm=algorithm, **arguments)
    assert same_bits(here, there)


def assert_same_verification(sdo, emulated, algorithm, *given, **arguments):
    here = sdo.verify(*given, seed=SEED, offset=OFFSET, **arguments)
    there = emulated.package.verify(
        *given, seed=SEED, offset=OFFSET, algorithm=algorithm, **arguments
    )
    for a, b in zip(here, there):
        assert torch.equal(a, b)


# ---- sample and filter_logits ----


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("vocab", SMALL)
def test_selected_rows_are_those_of_the_cpu(sdo, emulated, vocab, family):
    dtypes = itertools.cycle(DTYPES)
    for arguments in FILTERS.values():
        x = rows(family, 2, vocab, next(dtypes))
        assert_same_row_ops(sdo, emulated, x, "select", **with_history(arguments, 2, vocab))


@pytest.mark.parametrize("family", ["normal", "ties", "holes"])
@pytest.mark.parametrize("vocab", [1, 31, 999, 4097])
def test_sorted_rows_are_those_of_the_cpu(sdo, emulated, vocab, family):
    dtypes = itertools.cycle(DTYPES)
    for name in ("off", "half", "chain", "penalty", "hot", "greedy"):
        x = rows(family, 2, vocab, next(dtypes))
        assert_same_row_ops(sdo, emulated, x, "sort", **with_history(FILTERS[name], 2, vocab))


@pytest.mark.parametrize("filter_", ["off", "top_p", "chain", "penalty", "greedy"])
@pytest.mark.parametrize("vocab", LARGE)
def test_long_rows_are_those_of_the_cpu(sdo, emulated, vocab, filter_):
    arguments = with_history(FILTERS[filter_], 1, vocab)
    x = rows("normal", 1, vocab, DTYPES[(vocab + len(filter_)) % 3])
    assert_same_row_ops(sdo, emulated, x, "select", **arguments)
    if filter_ == "chain":
        assert_same_row_ops(sdo, emulated, x, "sort", **arguments)


@pytest.mark.parametrize("top_k", [1, 50, 999, 2047, 2048, 2049, 4096, 4097])
def test_any_number_of_candidates_is_right(sdo, emulated, top_k):
    for family in ("normal", "ties", "constant", "ascending"):
        x = rows(family, 1, 4097)
        for more in ({}, {"top_p": 0.9}, {"top_p": 0.6, "min_p": 0.3}):
            assert_same_row_ops(sdo, emulated, x, "select", top_k=top_k, **more)


def rows_at_the_quota():
    """Rows, and a top_p for each whose quota is, to the unit, the mass of the row's first six."""
    made, shares = np.zeros((8, 40), np.float32), []
    for i, row in enumerate(made):
        row[1:] = -1 - i / 50 - 0.37 * np.arange(39)
        mass = [int(m) for m in oracle.masses(row, 1.0)]
        shares.append(float(Fraction(2 * sum(mass[:6]) - 1, 2 * sum(mass))))
    return torch.from_numpy(made), torch.tensor(shares, dtype=torch.float64)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_top_p_counts_mass_to_the_unit(sdo, emulated, algorithm):
    x, top_p = rows_at_the_quota()
    kept = emulated.package.filter_logits(x, top_p=top_p, algorithm=algorithm) > -INF
    assert kept[:, :6].all() and not kept[:, 6:].any()
    assert_same_row_ops(sdo, emulated, x, algorithm, top_p=top_p)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_layout_changes_nothing(sdo, emulated, layout, dtype):
    x = rows("peaked", 3, 999, dtype)
    for algorithm, name in itertools.product(ALGORITHMS, ("off", "top_p", "chain")):
        there = emulated.package.sample(
            layout(x), seed=SEED, offset=OFFSET, algorithm=algorithm, **FILTERS[name]
        )
        assert torch.equal(there, sdo.sample(x, seed=SEED, offset=OFFSET, **FILTERS[name]))


def test_rows_of_stride_0_are_one_row(sdo, emulated):
    x = rows("normal", 1, 999).expand(5, 999)
    for algorithm in ALGORITHMS:
        assert_same_row_ops(sdo, emulated, x, algorithm, temperature=0.7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_row_has_its_own_parameters(sdo, emulated, algorithm):
    x = rows("normal", 7, 999)
    arguments = {
        "temperature": torch.tensor([0.0, 0.7, 1.0, 1.3, 0.7, NAN, 1e-3]),
        "top_k": torch.tensor([5, 0, 50, 999, -1, 3, 1000]),
        "top_p": torch.tensor([0.5, 1.0, 0.9, 0.95, 0.8, NAN, 0.0], dtype=torch.float64),
        "min_p": torch.tensor([0.1, 0.0, 0.02, 1.1, 0.0, NAN, 0.3]),
        "repetition_penalty": torch.tensor([1.0, 1.2, 0.5, 1.0, 3.0, INF, 1.1]),
        "prev_tokens": history(7, 20, 999),
    }
    assert_same_row_ops(sdo, emulated, x, algorithm, **arguments)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_does_not_depend_on_its_batch(sdo, emulated, algorithm):
    x = rows("normal", 6, 999)
    seeds = torch.tensor([3, -1, 2**62, 0, 5, 9])
    offsets = torch.arange(6) * 2**40
    order = torch.tensor([4, 2, 5, 0, 1, 3])
    arguments = {"temperature": 0.9, "top_p": 0.9, "algorithm": algorithm}
    there = emulated.package.sample(x, seed=seeds, offset=offsets, **arguments)
    moved = emulated.package.sample(x[order], seed=seeds[order], offset=offsets[order], **arguments)
    assert torch.equal(there[order], moved)
    assert torch.equal(there, sdo.sample(x, seed=seeds, offset=offsets, temperature=0.9, top_p=0.9))


PITFALLS = {
    "all NaN": [NAN] * 40,
    "one NaN": [1.0] * 20 + [NAN] + [0.5] * 19,
    "all -inf": [-INF] * 40,
    "all -inf but one": [-INF] * 17 + [-3e38] + [-INF] * 22,
    "several +inf": [0.0, INF, 5.0, INF, -INF, NAN] * 7,
    "huge": [3.4e38, -3.4e38, 3.3e38] * 13,
    "subnormal": [1e-40, -1e-40, 0.0, -0.0, 2e-45] * 8,
    "two equal": [30.0, 30.0] + [-30.0] * 38,
    "one-hot": [0.0] * 39 + [1.0],
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("row", PITFALLS)
def test_rows_that_broke_others_are_those_of_the_cpu(sdo, emulated, row, algorithm):
    x = torch.tensor([PITFALLS[row], PITFALLS[row][::-1]])
    x = torch.cat([x, torch.full((2, 5000), x.min().item())], dim=1)
    filters = [{}, {"top_p": 0.5}, {"top_k": 2}, {"min_p": 1.0}, {"top_p": 1e-9}]
    if algorithm == "sort":
        filters = [{"top_k": 2, "top_p": 0.5, "min_p": 0.1}]
    for temperature in (0.0, 1e-6, 1e-3, 0.3, 1.3, 1e6, 3e38):
        for more in filters:
            assert_same_row_ops(sdo, emulated, x, algorithm, temperature=temperature, **more)


def test_no_rows_are_no_launch(emulated):
    emulated.reset_counters()
    for algorithm in ALGORITHMS:
        assert emulated.package.sample(torch.empty(0, 9), seed=1, algorithm=algorithm).shape == (0,)
        assert emulated.package.filter_logits(torch.empty(0, 9), top_k=2).shape == (0, 9)
    assert emulated.counters().launches == []


def test_a_batch_may_be_larger_than_a_slice_of_the_sort(sdo, emulated):
    x = rows("normal", 257, 2)
    there = emulated.package.sample(x, seed=SEED, algorithm="sort")
    assert torch.equal(there, sdo.sample(x, seed=SEED))


# ---- verify and accept ----

RULES = {
    "token": {},
    "token, filtered": {"top_k": 20, "top_p": 0.9, "temperature": 0.8},
    "token, nucleus": {"top_p": 0.7},
    "token, penalty": {"repetition_penalty": 1.4, "min_p": 0.01},
    "coupled": {"method": "coupled", "temperature": 0.9},
    "coupled, filtered": {"method": "coupled", "top_p": 0.9, "repetition_penalty": 1.2},
    "greedy": {"temperature": 0.0},
}


def round_of(count, drafts, vocab, draft_vocab=None, dtype=torch.float32):
    """Target logits, draft logits near them, and draft tokens the draft may have drawn."""
    g = torch.Generator().manual_seed(count * 1000 + vocab)
    target = 2 * torch.randn(count, drafts + 1, vocab, generator=g)
    draft = target[:, :drafts] + 0.5 * torch.randn(count, drafts, vocab, generator=g)
    width = draft_vocab or vocab
    extra = torch.randn(count, drafts, max(width - vocab, 0), generator=g)
    draft = torch.cat([draft, extra], dim=2)[..., :width].contiguous()
    noise = -torch.rand(draft.shape, generator=g).clamp_min(1e-9).log().log1p()
    return target.to(dtype), draft.to(dtype), (draft + noise).argmax(dim=2)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("vocab", [2, 31, 999, 4097])
def test_verification_is_that_of_the_cpu(sdo, emulated, vocab, rule):
    arguments = dict(RULES[rule])
    for drafts, dtype in ((0, torch.float32), (1, torch.float16), (4, torch.bfloat16)):
        target, draft, tokens = round_of(3, drafts, vocab, dtype=dtype)
        if arguments.get("method") != "coupled":
            assert_same_verification(sdo, emulated, "select", target, draft, tokens, **arguments)
        assert_same_verification(sdo, emulated, "select", target, None, tokens, **arguments)


@pytest.mark.parametrize("rule", ["token", "token, filtered", "coupled, filtered", "greedy"])
def test_verification_by_sorting_is_that_of_the_cpu(sdo, emulated, rule):
    target, draft, tokens = round_of(3, 2, 999)
    draft = None if "coupled" in rule else draft
    assert_same_verification(sdo, emulated, "sort", target, draft, tokens, **RULES[rule])


def test_a_long_round_is_that_of_the_cpu(sdo, emulated):
    target, draft, tokens = round_of(1, 4, 50257)
    for rule in ("token", "token, filtered", "coupled"):
        assert_same_verification(sdo, emulated, "select", target, draft, tokens, **RULES[rule])


@pytest.mark.parametrize("draft_vocab", [5, 100, 4097, 5000])
def test_vocabularies_may_differ(sdo, emulated, draft_vocab):
    target, draft, tokens = round_of(4, 3, 999, draft_vocab)
    assert_same_verification(sdo, emulated, "select", target, draft, tokens)


def test_ragged_and_senseless_drafts_end_as_on_the_cpu(sdo, emulated):
    target, draft, tokens = round_of(6, 4, 999)
    tokens[0, 0], tokens[1, 2], tokens[2, 1] = -1, 999, 2**62
    tokens[3, 3] = -(2**63)
    draft[4, 0, tokens[4, 0]] = -INF
    target[5, 1] = -INF
    temperature = torch.tensor([1.0, 0.0, 0.7, 1.0, 1.0, 1.3])
    for algorithm, method in itertools.product(ALGORITHMS, ("token", "coupled")):
        assert_same_verification(
            sdo, emulated, algorithm, target, draft, tokens, temperature, method=method
        )


def test_equal_laws_that_reject_draw_from_the_target(sdo, emulated):
    target, _, tokens = round_of(4, 2, 999)
    words = torch.full((4, 3), -1, dtype=torch.int64)  # the largest fraction: rejects
    for x in (target, torch.zeros_like(target)):
        given = [x, x[:, :2].contiguous(), tokens]
        assert_same_verification(sdo, emulated, "select", *given)
        here, there = (
            package._ops.ops.verify.default(*given, 1.0, 0, 0, 0, words=words)
            for package in (sdo, emulated.package)
        )
        for a, b in zip(here, there):
            assert torch.equal(a, b)


def probabilities(logits):
    return logits.float().softmax(dim=-1)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("vocab", [1, 31, 999, 4097])
def test_acceptance_is_that_of_the_cpu(sdo, emulated, vocab, normalized):
    target, draft, tokens = round_of(5, 3, vocab)
    p, q = probabilities(target), probabilities(draft)
    u = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(vocab))
    if not normalized:
        p, q = 3 * p, q / 7
        p[0, 0, 0], p[1, 1], q[2, 0] = INF, 0.0, NAN
    for given in ([p, q, tokens], [p, None, tokens]):
        here = sdo.accept(*given, uniforms=u, normalized=normalized)
        there = emulated.package.accept(*given, uniforms=u, normalized=normalized)
        for a, b in zip(here, there):
            assert torch.equal(a, b)


@pytest.mark.parametrize("vocab", [1, 31, 999, 4097])
def test_greedy_verification_is_that_of_the_cpu(sdo, emulated, vocab):
    target, _, _ = round_of(5, 3, vocab)
    target[0, 0], target[1, 1, 0] = NAN, INF
    tokens = target[:, :3].nan_to_num(-1).argmax(dim=2)
    tokens[2, 1] = -1
    here = sdo.verify_greedy(target, tokens)
    there = emulated.package.verify_greedy(target, tokens)
    for a, b in zip(here, there):
        assert torch.equal(a, b)


# ---- Schedules ----


@pytest.mark.parametrize("vocab", [999, 4097])
def test_no_schedule_changes_a_token(sdo, emulated, vocab):
    """200 orders of blocks and warps, over the ops in turn."""
    x = rows("normal", 2, vocab)
    target, draft, tokens = round_of(2, 2, vocab)
    chain = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02}
    calls = [
        lambda p: p.sample(x, seed=SEED),
        lambda p: p.sample(x, seed=SEED, top_p=0.9),
        lambda p: p.sample(x, seed=SEED, **chain),
        lambda p: p.filter_logits(x, top_p=0.9),
        lambda p: p.sample(x, seed=SEED, algorithm="sort", **chain),
        lambda p: p.verify(target, draft, tokens, seed=SEED)[1],
        lambda p: p.verify(target, draft, tokens, seed=SEED, **chain)[1],
        lambda p: p.verify(target, None, tokens, seed=SEED, method="coupled")[1],
    ]
    wanted = [call(sdo) for call in calls]
    for schedule in range(1, 201):
        emulated.configure(schedule)
        i = schedule % len(calls)
        assert torch.equal(calls[i](emulated.package), wanted[i]), (schedule, i)


# ---- Other GPUs ----


def test_the_code_for_hopper_gives_the_same(sdo, emulated):
    """The tests above run what nvcc made for 8.0, which serves 8.6 and 8.9 too."""
    from cuda_emulator import library

    hopper = library.load("9.0")
    for name, arguments in FILTERS.items():
        x = rows("normal", 2, 4097, torch.bfloat16 if name == "chain" else torch.float32)
        algorithm = "sort" if name in ("chain", "off") else "select"
        assert_same_row_ops(sdo, hopper, x, algorithm, **with_history(arguments, 2, 4097))
    target, draft, tokens = round_of(3, 3, 999)
    for rule in ("token", "token, filtered", "greedy"):
        assert_same_verification(sdo, hopper, "select", target, draft, tokens, **RULES[rule])
    coupled = RULES["coupled, filtered"]
    assert_same_verification(sdo, hopper, "select", target, None, tokens, **coupled)
