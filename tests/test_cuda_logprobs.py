# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities from the CUDA library, run by the emulator: the CPU's bits, and their cost."""

import functools
import itertools

import cases
import pytest
import torch
from cases import DTYPES, FAMILIES, FILTERS, INF, LAYOUTS, NAN, history, rows, same_bits
from test_cuda_same_bits import round_of

with_history = functools.partial(cases.with_history, length=12)
ALGORITHMS = ["select", "sort"]
CHAIN = {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "min_p": 0.05}


@pytest.fixture(autouse=True)
def in_order(emulated):
    yield
    emulated.configure()


def assert_same_sample(sdo, emulated, x, algorithm="select", **arguments):
    here = sdo.sample(x, seed=5, return_logprobs=True, **arguments)
    there = emulated.package.sample(
        x, seed=5, return_logprobs=True, algorithm=algorithm, **arguments
    )
    assert torch.equal(here[0], there[0])
    for a, b in zip(here[1], there[1]):
        assert same_bits(a, b)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("vocab", [1, 31, 999, 4097])
def test_logprobs_of_samples_are_those_of_the_cpu(sdo, emulated, vocab, family):
    dtypes = itertools.cycle(DTYPES)
    for name, arguments in FILTERS.items():
        x = rows(family, 2, vocab, next(dtypes))
        algorithm = ALGORITHMS[name in ("chain", "half")]
        assert_same_sample(sdo, emulated, x, algorithm, **with_history(arguments, 2, vocab))


@pytest.mark.parametrize("name", ["off", "temperature", "top_p", "chain", "penalty", "greedy"])
def test_logprobs_of_long_rows_are_those_of_the_cpu(sdo, emulated, name):
    x = rows("normal", 1, 50257, DTYPES[len(name) % 3])
    assert_same_sample(sdo, emulated, x, **with_history(FILTERS[name], 1, 50257))


def test_each_row_has_its_own_parameters(sdo, emulated):
    arguments = {
        "temperature": torch.tensor([0.0, 0.7, 1.0, 1.3, 0.7, NAN, 1e-3]),
        "top_k": torch.tensor([5, 0, 50, 999, -1, 3, 1000]),
        "top_p": torch.tensor([0.5, 1.0, 0.9, 0.95, 0.8, NAN, 0.0], dtype=torch.float64),
        "repetition_penalty": torch.tensor([1.0, 1.2, 0.5, 1.0, 3.0, INF, 1.1]),
        "prev_tokens": history(7, 20, 999),
    }
    for algorithm in ALGORITHMS:
        assert_same_sample(sdo, emulated, rows("normal", 7, 999), algorithm, **arguments)


@pytest.mark.parametrize("special", [INF, -INF, NAN, 3e38])
def test_rows_with_special_values_are_those_of_the_cpu(sdo, emulated, special):
    x = rows("normal", 3, 999)
    x[0], x[1, [3, 700]], x[2, 5:] = special, special, special
    for arguments in FILTERS.values():
        assert_same_sample(sdo, emulated, x, **with_history(arguments, 3, 999))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout_changes_nothing(sdo, emulated, layout):
    x = rows("peaked", 3, 999)
    for name in ("off", "top_p", "chain"):
        _, wanted = sdo.sample(x, seed=5, return_logprobs=True, **FILTERS[name])
        _, there = emulated.package.sample(layout(x), seed=5, return_logprobs=True, **FILTERS[name])
        assert all(same_bits(a, b) for a, b in zip(wanted, there))


@pytest.mark.parametrize("name", ["off", "temperature", "top_k", "half", "penalty", "greedy"])
@pytest.mark.parametrize("method", ["token", "coupled"])
def test_logprobs_of_rounds_are_those_of_the_cpu(sdo, emulated, method, name):
    target, draft, tokens = round_of(4, 3, 999)
    tokens[1, 1] = -1
    arguments = with_history({**FILTERS[name], "method": method, "seed": 3}, 4, 999)
    here = sdo.verify(target, draft, tokens, return_logprobs=True, **arguments)
    there = emulated.package.verify(target, draft, tokens, return_logprobs=True, **arguments)
    assert all(torch.equal(a, b) for a, b in zip(here[:2], there[:2]))
    assert all(same_bits(a, b) for a, b in zip(here[2], there[2]))


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_schedule_changes_a_bit(sdo, emulated, seed):
    emulated.configure(seed)
    for name in ("temperature", "half", "penalty"):
        x = rows("normal", 2, 4097)
        assert_same_sample(sdo, emulated, x, **with_history(FILTERS[name], 2, 4097))


# ---- What they cost ----


@pytest.fixture
def logprobs_of(emulated):
    """Runs the op alone: its kernels by name, and how often the average logit is read."""

    def run(x, tokens, temperature=1.0, *filters):
        emulated.reset_counters()
        emulated.ops.logprobs.default(x, tokens, temperature, *filters)
        counters = emulated.counters()
        names = [
            launch.kernel.partition("(")[0].rpartition("::")[2] for launch in counters.launches
        ]
        return names, counters.bytes_read["logits"] / (x.numel() * x.element_size())

    return run


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_without_a_filter_one_pass_over_the_row_gives_both(logprobs_of, temperature):
    x = rows("normal", 2, 50257)[:, None]
    names, passes = logprobs_of(x, torch.tensor([[5], [7]]), temperature)
    assert names == ["strip_kernel", "logprob_kernel"]
    assert 1 <= passes < 1 + 65 / 50257  # its token again, twice by each lane of a warp


def test_with_top_k_the_row_is_read_once_and_k_tiles_twice(logprobs_of):
    x = rows("normal", 2, 50257)[:, None]
    names, passes = logprobs_of(x, x.argmax(-1), 0.8, 50, 0.95, 0.05)
    assert names == ["scan_kernel", "cut_kernel", "strip_kernel", "logprob_kernel"]
    assert 1 <= passes < 1 + 2 * 50 * 128 / 50257 + 0.02


def test_rows_without_a_token_are_not_read(logprobs_of):
    x = rows("normal", 4, 50257).view(1, 4, 50257)
    _, passes = logprobs_of(x, torch.tensor([[5, 7, -1, -1]]))
    assert 0.5 <= passes < 0.501
