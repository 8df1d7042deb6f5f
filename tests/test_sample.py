# SPDX-License-Identifier: Apache-2.0
"""sample: the token is a pure function of the row, its parameters, seed, offset and stream."""

import functools

import cases
import pytest
import torch
from cases import DTYPES, FAMILIES, FILTERS, INF, LAYOUTS, NAN, VOCABS
from oracle import oracle

with_history = functools.partial(cases.with_history, length=40)
SEED, OFFSET = 0x9E3779B97F4A7C15, 2**59 + 12345


def sample(sdo, logits, **arguments):
    return sdo.sample(logits, **{"seed": SEED, "offset": OFFSET, **arguments}).tolist()


# ---- The token, to the bit ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", VOCABS)
def test_tokens_are_the_oracles(sdo, vocab, dtype):
    families = FAMILIES if vocab < 5000 else ["flat", "ties", "holes"]
    logits = torch.cat([cases.rows(family, 2, vocab, dtype) for family in families])
    for name, arguments in FILTERS.items():
        arguments = with_history(arguments, len(logits), vocab)
        expected = cases.oracle_sample(logits, SEED, OFFSET, **arguments)
        assert sample(sdo, logits, **arguments) == expected, name


@pytest.mark.parametrize("vocab", [5, 700])
def test_many_draws_are_the_oracles(sdo, vocab):
    for family in FAMILIES:
        logits = cases.rows(family, 1, vocab).expand(150, -1)
        for arguments in ({}, {"top_p": 0.6}, {"temperature": 3.0, "top_k": 4}):
            assert sample(sdo, logits, **arguments) == cases.oracle_sample(
                logits, SEED, OFFSET, **arguments
            )


@pytest.mark.parametrize("name", FILTERS)
def test_sample_is_the_draw_over_filter_logits(sdo, name):
    """The same bits: argmax over what filter_logits returns, plus the noise."""
    logits = cases.rows("normal", 6, 2000)
    arguments = with_history(FILTERS[name], 6, 2000)
    filtered = sdo.filter_logits(logits, **arguments)
    noise = [oracle.Place(SEED, OFFSET, b).noise(2000) for b in range(6)]
    drawn = [oracle.argmax_of_sum(y.numpy(), g) for y, g in zip(filtered, noise)]
    assert sample(sdo, logits, **arguments) == drawn
    again = {} if FILTERS[name].get("temperature") != 0.0 else {"temperature": 0.0}
    assert sample(sdo, filtered, **again) == drawn


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layout_does_not_matter(sdo, layout, dtype):
    for vocab in (1, 31, 999, 1024):
        logits = cases.rows("holes", 3, vocab, dtype)
        for arguments in FILTERS.values():
            assert sample(sdo, layout(logits), **arguments) == sample(sdo, logits, **arguments)


def test_an_expanded_row_is_a_batch_of_it(sdo):
    row = cases.rows("normal", 1, 999)
    for arguments in FILTERS.values():
        tokens = sample(sdo, row.expand(64, -1), **arguments)
        assert tokens == sample(sdo, row.repeat(64, 1), **arguments)
    assert len(set(sample(sdo, row.expand(64, -1), temperature=5.0))) > 16


def test_one_row_is_a_batch_without_its_dimension(sdo):
    logits = cases.rows("normal", 1, 999)
    token = sdo.sample(logits[0], seed=SEED)
    assert token.shape == () and token.dtype == torch.int64
    assert token == sdo.sample(logits, seed=SEED)[0]


def test_each_row_has_its_own_parameters(sdo):
    logits = cases.rows("flat", 6, 999)
    arguments = {
        "temperature": torch.tensor([0.0, 0.7, -1.0, 2.0, 1.0, 0.5]),
        "top_k": torch.tensor([0, -1, 999, 20, 1000, 3]),
        "top_p": torch.tensor([0.5, 0.9, 0.1, 1.5, 0.0, 1.0]),
        "min_p": torch.tensor([0.0, 0.01, 0.1, -1.0, 0.2, 0.9]),
        "repetition_penalty": torch.tensor([1.0, 1.2, 0.8, 2.0, 1.0, 1.1]),
        "prev_tokens": cases.history(6, 30, 999),
    }
    tokens = sample(sdo, logits, **arguments)
    assert tokens == cases.oracle_sample(logits, SEED, OFFSET, **arguments)
    alone = {k: v if k == "prev_tokens" else v[:1] for k, v in arguments.items()}
    alone["prev_tokens"] = arguments["prev_tokens"][:1]
    assert sample(sdo, logits[:1], **alone) == tokens[:1]


def test_meaningless_entries_of_parameter_tensors_count_as_off(sdo):
    logits = cases.rows("normal", 3, 999)
    off = sample(sdo, logits)
    for name, values in {
        "temperature": [NAN, INF, 1.0],
        "top_p": [NAN, INF, 1.0],
        "min_p": [NAN, -INF, 0.0],
        "repetition_penalty": [NAN, -1.0, INF],
    }.items():
        previous = cases.history(3, 30, 999)
        assert sample(sdo, logits, **{name: torch.tensor(values)}, prev_tokens=previous) == off


# ---- Seeds, offsets, streams ----


def test_a_scalar_seed_gives_row_b_the_stream_b(sdo):
    logits = cases.rows("flat", 1, 700).expand(9, -1)
    tokens = sample(sdo, logits)
    assert tokens == cases.oracle_sample(logits, SEED, OFFSET)
    one = torch.tensor([SEED - 2**64])
    assert sample(sdo, logits, seed=one, offset=torch.tensor([OFFSET])) == tokens


def test_a_seed_a_row_gives_every_row_stream_0(sdo):
    logits = cases.rows("flat", 1, 700).expand(4, -1)
    seeds, offsets = [1111, 2222, 1111, -5], [3, 3, 4, 2**60 - 1]
    tokens = sample(sdo, logits, seed=torch.tensor(seeds), offset=torch.tensor(offsets))
    places = [oracle.Place(s, o, 0) for s, o in zip(seeds, offsets)]
    assert tokens == [oracle.sample(logits[0], oracle.Filter(), place) for place in places]
    assert len(set(tokens)) == 4


def test_a_row_with_its_own_seed_does_not_depend_on_its_place(sdo):
    logits = cases.rows("normal", 16, 999)
    seeds = torch.arange(16) * 7919
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    for arguments in FILTERS.values():
        tokens = sdo.sample(logits, seed=seeds, **arguments)
        moved = sdo.sample(logits[order], seed=seeds[order], **arguments)
        assert torch.equal(tokens[order], moved)
        alone = [sdo.sample(logits[b : b + 1], seed=seeds[b : b + 1], **arguments) for b in (0, 9)]
        assert alone == [tokens[0], tokens[9]]


def test_seeds_are_taken_modulo_2_to_the_64(sdo):
    logits = cases.rows("flat", 4, 700)
    for a, b in [(-1, 2**64 - 1), (5, 2**64 + 5), (-(2**63), 2**63), (2**100 + 3, 3)]:
        assert sample(sdo, logits, seed=a) == sample(sdo, logits, seed=b)


def test_every_bit_of_seed_and_offset_moves_the_draw(sdo):
    logits = torch.zeros(1, 50257)
    seeds = {sample(sdo, logits, seed=1 << bit, offset=0)[0] for bit in range(64)}
    offsets = {sample(sdo, logits, seed=0, offset=1 << bit)[0] for bit in range(60)}
    assert len(seeds) > 60 and len(offsets) > 56


def test_offset_tensors_are_taken_modulo_2_to_the_60(sdo):
    logits = cases.rows("flat", 2, 700)
    for given, place in [(-1, 2**60 - 1), (2**60 + 5, 5), (-(2**63), 0)]:
        assert sample(sdo, logits, offset=torch.tensor([given])) == sample(
            sdo, logits, offset=place
        )


def test_no_seed_takes_one_from_torch(sdo):
    logits = torch.zeros(1, 50257)
    torch.manual_seed(3)
    first, second = sdo.sample(logits), sdo.sample(logits)
    torch.manual_seed(3)
    assert sdo.sample(logits) == first and sdo.sample(logits) == second
    assert first != second


def test_a_seed_touches_no_generator(sdo):
    state = torch.get_rng_state()
    sample(sdo, cases.rows("normal", 2, 31))
    sdo.sample(cases.rows("normal", 2, 31), 0.0, seed=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_greedy_call_without_a_seed_touches_no_generator(sdo):
    x, tokens = cases.rows("normal", 3, 31), torch.zeros(1, 2, dtype=torch.int64)
    state = torch.get_rng_state()
    assert sdo.sample(x, 0).tolist() == x.argmax(-1).tolist()
    sdo.verify(x[None], None, tokens, 0.0)
    assert torch.equal(torch.get_rng_state(), state)
    sdo.sample(x, torch.zeros(1))  # a tensor's values are not looked at
    assert not torch.equal(torch.get_rng_state(), state)


# ---- PITFALLS: values ----


@pytest.mark.parametrize("arguments", FILTERS.values(), ids=FILTERS)
def test_a_row_without_tokens_gives_minus_one(sdo, arguments):
    logits = torch.full((3, 700), -INF)
    logits[1] = NAN
    logits[2, 600] = -1000.0
    assert sample(sdo, logits, **arguments) == [-1, -1, 600]


@pytest.mark.parametrize("arguments", FILTERS.values(), ids=FILTERS)
def test_nan_is_never_drawn(sdo, arguments):
    logits = torch.zeros(500, 20)
    logits[:, ::2] = NAN
    assert all(token % 2 for token in sample(sdo, logits, **arguments))


def test_one_hot_with_a_huge_top_k_gives_its_token(sdo):
    logits = torch.full((1, 33), -INF)
    logits[0, 17] = 1.0
    assert sample(sdo, logits, top_k=2**30) == [17]


def test_infinite_logits_are_drawn_equally_often(sdo):
    logits = torch.tensor([[INF, 5.0, INF, NAN]]).expand(4096, -1)
    tokens = torch.tensor(sample(sdo, logits))
    # 6 standard deviations of a fair coin: 2e-9.
    assert abs(int((tokens == 0).sum()) - 2048) < 6 * 32
    assert int((tokens == 2).sum() + (tokens == 0).sum()) == 4096


@pytest.mark.parametrize("level", [20.0, 30.0, -30.0])
@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 1e-6])
def test_equal_logits_stay_equal_at_low_temperature(sdo, level, temperature):
    """In float32, x / T + G loses G: others gave the lower id 73 %."""
    logits = torch.full((4096, 2), level)
    ones = sum(sample(sdo, logits, temperature=temperature))
    assert abs(ones - 2048) < 6 * 32


def test_greedy_is_the_first_maximum(sdo):
    logits = torch.tensor([[1.0, 3.0, NAN, 3.0], [-0.0, 0.0, -1.0, 0.0], [INF, 9.0, INF, 0.0]])
    assert sample(sdo, logits, temperature=0.0) == [1, 0, 0]
    assert sample(sdo, logits, temperature=-2.0) == [1, 0, 0]
    for vocab in VOCABS:
        rows = cases.rows("ties", 3, vocab)
        assert sample(sdo, rows, temperature=0.0) == rows.argmax(-1).tolist()


def test_greedy_sees_the_penalty(sdo):
    logits = torch.tensor([[2.0, 1.9]])
    previous = torch.tensor([[0]])
    assert sample(sdo, logits, temperature=0.0, repetition_penalty=1.1, prev_tokens=previous) == [1]


@pytest.mark.parametrize("vocab", [40001, 50258, 151936])
@pytest.mark.parametrize("dtype", DTYPES)
def test_real_vocabularies_odd_rows_and_offsets(sdo, vocab, dtype):
    logits = cases.shifted(cases.rows("normal", 2, vocab, dtype))
    for arguments in ({}, {"top_k": 50, "top_p": 0.9}):
        expected = cases.oracle_sample(logits, SEED, OFFSET, **arguments)
        assert sample(sdo, logits, **arguments) == expected


def test_the_largest_vocabulary_works(sdo):
    logits = torch.zeros(1, 2**20)
    logits[0, -1] = 30.0
    assert sample(sdo, logits) == [2**20 - 1]
    assert sample(sdo, logits, top_p=0.9) == [2**20 - 1]
    assert max(sample(sdo, torch.zeros(1, 2**20).expand(8, -1))) > 2**19


def test_a_batch_of_over_2_to_the_31_elements_works(sdo):
    """By stride 0: no such memory is needed."""
    batch = 2**31 // 2**20 + 3
    logits = torch.full((2**20,), -INF)
    logits[[5, 2**20 - 1]] = 1.0
    tokens = sample(sdo, logits.expand(batch, -1), top_k=2)
    assert set(tokens) == {5, 2**20 - 1}


def test_empty_batches_and_single_tokens_work(sdo):
    assert sdo.sample(torch.empty(0, 5), seed=1).shape == (0,)
    for arguments in FILTERS.values():
        assert sample(sdo, torch.tensor([[-7.0]]), **arguments) == [0]


def test_inputs_are_not_written_to(sdo):
    logits = cases.rows("holes", 3, 999)
    arguments = {
        "temperature": torch.tensor([0.5, 0.0, 1.0]),
        "top_p": torch.tensor([NAN, 0.5, 2.0]),
        "top_k": torch.tensor([5, -3, 2000]),
        "repetition_penalty": torch.tensor([1.5]),
        "prev_tokens": cases.history(3, 20, 999),
        "seed": torch.tensor([1, 2, 3]),
        "offset": torch.tensor([7]),
    }
    before = {name: value.clone() for name, value in arguments.items()}
    copy = logits.clone()
    sdo.sample(logits, **arguments)
    assert cases.same_bits(copy, logits)
    for name, value in arguments.items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0, equal_nan=True)


def test_the_reference_draws_the_same_tokens_from_the_same_noise(sdo):
    logits = cases.rows("normal", 16, 513)
    noise = [torch.from_numpy(oracle.Place(SEED, OFFSET, b).noise(513)) for b in range(16)]
    for arguments in ({}, {"temperature": 0.7, "top_k": 40, "top_p": 0.9}, {"temperature": 0.0}):
        reference = sdo.reference.sample(logits, torch.stack(noise), **arguments)
        assert reference.tolist() == sample(sdo, logits, **arguments)
