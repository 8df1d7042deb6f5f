# SPDX-License-Identifier: Apache-2.0
"""filter_logits: which tokens are kept, and at which value, to the bit."""

import math

import cases
import numpy as np
import pytest
import torch
from cases import DTYPES, FAMILIES, FILTERS, INF, LAYOUTS, NAN, VOCABS, same_bits


def kept(filtered):
    return [row.isfinite().nonzero()[:, 0].tolist() for row in filtered]


def row(*values):
    return torch.tensor([values])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", VOCABS)
def test_filtered_rows_are_the_oracles(sdo, vocab, dtype):
    families = FAMILIES if vocab < 5000 else ["normal", "ties", "holes"]
    logits = torch.cat([cases.rows(family, 1, vocab, dtype) for family in families])
    previous = cases.history(len(logits), 40, vocab)
    for name, arguments in FILTERS.items():
        if "repetition_penalty" in arguments:
            arguments = {**arguments, "prev_tokens": previous}
        expected = cases.oracle_filter(logits, **arguments)
        assert same_bits(sdo.filter_logits(logits, **arguments), expected), name


@pytest.mark.parametrize("vocab", [3, 700, 4097])
def test_thresholds_between_neighbouring_floats_are_exact(sdo, vocab):
    """top_p and min_p at a token's own probability, and one float64 to each side."""
    logits = cases.rows("normal", 1, vocab)
    p = logits[0].double().softmax(0).sort(descending=True).values.numpy()
    for share in (p[0], p[:2].sum(), p[: vocab // 2].sum(), p[:-1].sum()):
        for top_p in (np.nextafter(share, 0), share, np.nextafter(share, 2)):
            arguments = {"top_p": float(top_p)}
            expected = cases.oracle_filter(logits, **arguments)
            assert same_bits(sdo.filter_logits(logits, **arguments), expected)
    for token in (1, vocab // 2, vocab - 1):
        for min_p in (np.nextafter(p[token] / p[0], 0), p[token] / p[0]):
            arguments = {"min_p": float(min_p)}
            expected = cases.oracle_filter(logits, **arguments)
            assert same_bits(sdo.filter_logits(logits, **arguments), expected)


@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 63, 64, 500, 1023, 1024, 4096])
def test_every_top_k_is_the_oracles(sdo, k):
    for family in FAMILIES:
        logits = cases.rows(family, 2, 4097)
        arguments = {"top_k": k, "temperature": 1.3}
        expected = cases.oracle_filter(logits, **arguments)
        assert same_bits(sdo.filter_logits(logits, **arguments), expected), family


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layout_does_not_matter(sdo, layout, dtype):
    for vocab in (1, 31, 999, 1024):
        logits = cases.rows("holes", 3, vocab, dtype)
        for arguments in FILTERS.values():
            a, b = (
                sdo.filter_logits(logits, **arguments),
                sdo.filter_logits(layout(logits), **arguments),
            )
            assert same_bits(a, b)


def test_one_row_is_a_batch_without_its_dimension(sdo):
    logits = cases.rows("normal", 1, 999)
    assert sdo.filter_logits(logits[0], top_k=5).shape == (999,)
    assert same_bits(sdo.filter_logits(logits[0], top_k=5), sdo.filter_logits(logits, top_k=5)[0])


def test_the_result_is_new_memory_and_the_input_is_untouched(sdo):
    logits = cases.rows("holes", 3, 999)
    before = logits.clone()
    previous = cases.history(3, 9, 999)
    kept_previous = previous.clone()
    for arguments in FILTERS.values():
        out = sdo.filter_logits(
            logits, **{"repetition_penalty": 1.5, "prev_tokens": previous, **arguments}
        )
        out.fill_(7.0)
    assert same_bits(logits, before)
    assert torch.equal(previous, kept_previous)


def test_each_row_has_its_own_parameters(sdo):
    logits = cases.rows("normal", 4, 999)
    arguments = {
        "temperature": torch.tensor([0.0, 0.7, 1.0, 2.0]),
        "top_k": torch.tensor([0, -1, 999, 20]),
        "top_p": torch.tensor([0.5, 0.9, 1.0, 1.5], dtype=torch.float64),
        "min_p": torch.tensor([0.0, 0.01, 0.1, -1.0]),
        "repetition_penalty": torch.tensor([1.0, 1.2, 0.8, 2.0]),
        "prev_tokens": cases.history(4, 30, 999),
    }
    expected = cases.oracle_filter(logits, **arguments)
    assert same_bits(sdo.filter_logits(logits, **arguments), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_parameter_tensor_of_one_serves_all_rows(sdo, dtype):
    logits = cases.rows("normal", 3, 999)
    one = sdo.filter_logits(logits, top_p=torch.tensor([0.75], dtype=dtype), top_k=300)
    assert same_bits(one, sdo.filter_logits(logits, top_p=0.75, top_k=torch.tensor([300])))


# ---- PITFALLS: values ----


def test_nan_is_never_kept(sdo):
    assert kept(sdo.filter_logits(row(NAN, 1.0, NAN, 2.0))) == [[1, 3]]
    assert kept(sdo.filter_logits(row(NAN, 1.0, NAN, 2.0), top_k=3)) == [[1, 3]]
    assert kept(sdo.filter_logits(row(NAN, 1.0), temperature=0.0)) == [[1]]


@pytest.mark.parametrize("arguments", FILTERS.values(), ids=FILTERS)
def test_an_empty_row_stays_empty(sdo, arguments):
    for value in (NAN, -INF):
        out = sdo.filter_logits(torch.full((2, 700), value), **arguments)
        assert same_bits(out, torch.full((2, 700), -INF))


@pytest.mark.parametrize("arguments", FILTERS.values(), ids=FILTERS)
def test_the_one_token_left_is_kept(sdo, arguments):
    logits = torch.full((1, 700), -INF)
    logits[0, 613] = -4.0
    assert kept(sdo.filter_logits(logits, **arguments)) == [[613]]


def test_infinite_logits_share_the_row(sdo):
    out = sdo.filter_logits(row(INF, 3.0, INF, NAN, -INF))
    assert same_bits(out, row(0.0, -INF, 0.0, -INF, -INF))
    assert kept(sdo.filter_logits(row(INF, 3.0, INF, 0.0), top_k=1)) == [[0, 2]]
    assert kept(sdo.filter_logits(row(INF, 3.0, INF, 0.0), top_p=0.5)) == [[0]]
    assert kept(sdo.filter_logits(row(INF, 3.0, INF, 0.0), temperature=0.0)) == [[0]]


def test_a_quotient_that_overflows_is_the_largest_float(sdo):
    largest = torch.finfo(torch.float32).max
    logits = row(1e38, -1e38, 1e30, 0.0)
    out = sdo.filter_logits(logits, temperature=1e-3)
    assert same_bits(out, cases.oracle_filter(logits, temperature=1e-3))
    assert out[0, :2].tolist() == [largest, -largest]


@pytest.mark.parametrize("top_k", [0, -1, 5, 6, 2**62])
def test_top_k_outside_the_vocabulary_is_off(sdo, top_k):
    logits = cases.rows("normal", 2, 5)
    assert same_bits(sdo.filter_logits(logits, top_k=top_k), logits)


@pytest.mark.parametrize("top_p, count", [(-1.0, 1), (0.0, 1), (1e-9, 1), (1.0, 999), (1.5, 999)])
def test_top_p_at_its_ends(sdo, top_p, count):
    out = sdo.filter_logits(cases.rows("normal", 2, 999), top_p=top_p)
    assert [len(tokens) for tokens in kept(out)] == [count, count]


@pytest.mark.parametrize("min_p, count", [(-0.5, 4), (0.0, 4), (1.0, 2), (1.1, 2)])
def test_min_p_at_its_ends(sdo, min_p, count):
    out = sdo.filter_logits(row(1.0, 2.0, 2.0, 1.9), min_p=min_p)
    assert [len(tokens) for tokens in kept(out)] == [count]


def test_top_k_keeps_every_equal_of_the_kth(sdo):
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]], dtype=torch.bfloat16)
    assert kept(sdo.filter_logits(logits, top_k=2)) == [[1, 2, 3, 4]]


@pytest.mark.parametrize("vocab", [1000, 4096])
def test_top_p_of_a_flat_row_keeps_the_lowest_ids(sdo, vocab):
    out = sdo.filter_logits(torch.full((1, vocab), 0.3), top_p=0.5)
    assert kept(out) == [list(range(vocab // 2))]


def test_logits_whose_quotients_merge_are_ties(sdo):
    """A quarter of neighbouring floats merge under / 1.3."""
    x = torch.tensor([1.5 + i * 2.0**-23 for i in range(64)])
    y = x / 1.3
    assert len(y.unique()) < len(x)
    for k in range(1, 64):
        threshold = y.sort(descending=True).values[k - 1]
        out = sdo.filter_logits(x[None], temperature=1.3, top_k=k)
        assert kept(out) == [(y >= threshold).nonzero()[:, 0].tolist()]


def test_minus_zero_equals_zero(sdo):
    assert kept(sdo.filter_logits(row(-0.0, 0.0, -1.0), top_k=1)) == [[0, 1]]
    assert kept(sdo.filter_logits(row(-0.0, 0.0, -1.0), top_p=0.3)) == [[0]]
    assert kept(sdo.filter_logits(row(-0.0, 0.0), temperature=0.0)) == [[0]]


def test_the_penalty_counts_a_repeated_id_once_and_ignores_padding(sdo):
    previous = torch.tensor([[1, 1, 1, -1, 2, 4, 99]])
    out = sdo.filter_logits(row(2.0, 2.0, -2.0, 1.0), repetition_penalty=4.0, prev_tokens=previous)
    assert same_bits(out, row(2.0, 0.5, -8.0, 1.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("penalty", [0.25, 4.0])
def test_penalised_tokens_rise_and_fall_across_the_cut(sdo, penalty, dtype):
    """Those that pass the k-th largest on the way up or down, the largest of their lane or not."""
    logits = cases.rows("normal", 2, 4097, dtype)
    by_size = logits.sort(dim=1).indices
    arguments = {
        "top_k": 60,
        "repetition_penalty": penalty,
        "prev_tokens": torch.cat([by_size[:, :50], by_size[:, -90::2]], 1),
    }
    filtered = sdo.filter_logits(logits, **arguments)
    assert same_bits(filtered, cases.oracle_filter(logits, **arguments))
    assert kept(filtered) != kept(sdo.filter_logits(logits, top_k=60))


def test_a_row_of_prev_tokens_serves_all_rows(sdo):
    logits = cases.rows("normal", 3, 50)
    ids = torch.tensor([3, 7, 7])
    out = sdo.filter_logits(logits, repetition_penalty=2.0, prev_tokens=ids)
    rows = sdo.filter_logits(logits, repetition_penalty=2.0, prev_tokens=ids.repeat(3, 1))
    assert same_bits(out, rows)


@pytest.mark.parametrize("temperature", [1e-45, 1e-6, 1e-3, 1e3, 1e6, 3e38])
def test_extreme_temperatures_are_the_oracles(sdo, temperature):
    logits = torch.cat([cases.rows(family, 1, 700) for family in FAMILIES])
    for filters in ({}, {"top_p": 0.7}, {"top_k": 9, "min_p": 0.1}):
        arguments = {"temperature": temperature, **filters}
        expected = cases.oracle_filter(logits, **arguments)
        assert same_bits(sdo.filter_logits(logits, **arguments), expected)


def test_empty_batches_and_histories_work(sdo):
    assert sdo.filter_logits(torch.empty(0, 7), top_p=0.5).shape == (0, 7)
    none = torch.empty(1, 0, dtype=torch.int64)
    out = sdo.filter_logits(row(1.0, 2.0), repetition_penalty=2.0, prev_tokens=none)
    assert same_bits(out, row(1.0, 2.0))


# ---- The definition in torch ----


def test_the_reference_keeps_the_same_tokens(sdo):
    logits = cases.rows("normal", 8, 513)
    for name, arguments in FILTERS.items():
        arguments = {**arguments, "prev_tokens": cases.history(8, 20, 513)}
        ours = sdo.filter_logits(logits, **arguments)
        reference = sdo.reference.filter_logits(logits, **arguments)
        assert kept(ours) == kept(reference), name
        finite = ours.isfinite()
        assert math.isclose(0, (ours - reference)[finite].abs().max(), abs_tol=1e-4), name
