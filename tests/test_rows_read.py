# SPDX-License-Identifier: Apache-2.0
"""How many rows the CPU kernels read in a round of verification, from logits and from
probabilities: every load of the kernels is counted (cpu_reads/library.py).

The token rule reads the rows of accepted tokens once, and nothing behind the position where the
round ends. There it goes over one row pair again for the residual, or over the target's own row for
the bonus. Normalised probabilities need no sums: a token a row, and the pair. Where float sums
leave a doubt, as on flat rows, exact ones follow. The block rule needs each row's normaliser. The
coupled rule draws from the target's rows and reads no draft. With top-k on both sides whole rows
are read once, and all else happens in the tiles that hold what is kept.
"""

import platform

import pytest
import torch
from cpu_reads import library
from test_cuda_same_bits import round_of

VOCAB, K, TOP_K = 50257, 3, 50
LINES = 0.01  # of a row: what a few tokens and its incomplete last tile cost
SCORED = 0.2  # what asks for a token reads of a row besides
DRAWN = 0.4  # and what draws one
KEPT = TOP_K * 512 / VOCAB  # the tiles of 512 tokens with a kept one
UNIFORMS = torch.full((1, K + 1), 0.5, dtype=torch.float64)
POSITIONS = pytest.mark.parametrize("position", range(K + 1))

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def counting():
    """Over the scalar target, no load of which is an instruction that the compiler cannot see."""
    library.load().package._cpu_target("scalar")
    return library.load()


@pytest.fixture
def read(counting):
    """Runs a call on a round; how often it read each row of the target, and of the draft."""

    def run(call, target, draft, tokens):
        rows = [*target[0], *([] if draft is None else draft[0])]
        counts, (accept_len, *_) = counting.reads(
            lambda package: call(package, target, draft, tokens), *rows
        )
        return counts[: K + 1], counts[K + 1 :], int(accept_len)

    return run


def rejected_at(position):
    """Logits and draft tokens of which the one at `position` is impossible, those before sure. Each
    is the draft's most likely one, which all filters keep."""
    target, draft, _ = round_of(1, K, VOCAB)
    draft[:, :position] = target[:, :position]
    tokens = draft.argmax(-1)
    if position < K:
        target[0, position, tokens[0, position]] = -float("inf")
    return target, draft, tokens


def probabilities(position, scale=1.0, sharpness=2.0):
    target, draft, tokens = rejected_at(position)
    p, q = (sharpness * target).softmax(-1), (sharpness * draft).softmax(-1)
    return scale * p, q, tokens


def assert_read(rows, position, before, at_end):
    """The rows before the position `before` times at most, that one `at_end` times, others never;
    what a round is about is read."""
    for i, times in enumerate(rows):
        if i > position:
            assert times == 0, (i, rows)
        else:
            assert 0 < times < (before if i < position else at_end), (i, rows)


def verified(**arguments):
    return lambda package, *given: package.verify(*given, seed=2, **arguments)


def accepted(**arguments):
    return lambda package, *given: package.accept(*given, uniforms=UNIFORMS, **arguments)


@POSITIONS
def test_the_token_rule_from_logits(read, position):
    target, draft, accept_len = read(verified(), *rejected_at(position))
    assert accept_len == position
    assert_read(target, position, 1 + SCORED, 2 + SCORED)
    assert_read(draft, position, 1 + SCORED, 2 + SCORED)


@POSITIONS
def test_the_token_rule_from_logits_without_a_draft_law(read, position):
    target, draft, tokens = rejected_at(position)
    target[0, range(position), tokens[0, :position]] = 30.0
    target, draft, accept_len = read(verified(), target, None, tokens)
    assert accept_len == position
    assert_read(target, position, 1 + SCORED, 2 + SCORED)


@POSITIONS
def test_the_block_rule_from_logits(read, position):
    """A row more than the token rule, whose float sums it cannot use; a draft token without mass
    ends it too."""
    target, draft, accept_len = read(verified(method="block"), *rejected_at(position))
    assert accept_len == position
    assert_read(target, position, 2 + SCORED, 4 + SCORED)
    assert_read(draft, position, 2 + SCORED, 4 + SCORED)


@pytest.mark.parametrize("filters", [{}, {"top_k": TOP_K}, {"temperature": 0.0}])
@POSITIONS
def test_the_coupled_rule_reads_no_draft_and_nothing_behind_the_first_difference(
    read, position, filters
):
    target, draft, tokens = rejected_at(position)
    target[0, range(position), tokens[0, :position]] = 30.0
    rows, of_draft, accept_len = read(verified(method="coupled", **filters), target, draft, tokens)
    assert accept_len == position
    most = 1 + DRAWN + (KEPT if "top_k" in filters else 0)
    assert_read(rows, position, most, most)
    assert not any(of_draft)


@pytest.mark.parametrize("method", ["token", "block"])
@POSITIONS
def test_with_top_k_on_both_sides_whole_rows_are_read_once(read, position, method):
    """The residual stays inside the kept lists: the block rule selects its pair anew, and neither
    reads more of it than that."""
    given = rejected_at(position)
    target, draft, accept_len = read(verified(method=method, top_k=TOP_K), *given)
    assert accept_len == position
    selected = 1 + KEPT + 0.1  # a bound lets a few tokens more in
    assert_read(target, position, selected, selected * (2 if method == "block" else 1))
    assert_read(draft, position, selected, selected * (2 if method == "block" else 1))


@pytest.mark.parametrize("method", ["token", "block"])
@pytest.mark.parametrize("position", range(K))
def test_with_top_k_a_rejected_pair_costs_less_than_without_a_filter(read, position, method):
    pairs = []
    for rule in ({"top_k": TOP_K}, {}):
        target, draft, _ = read(verified(method=method, **rule), *rejected_at(position))
        pairs.append(target[position] + draft[position])
    assert pairs[0] < 0.8 * pairs[1]


@POSITIONS
def test_the_token_rule_from_unnormalised_probabilities(read, position):
    target, draft, accept_len = read(accepted(), *probabilities(position, 3.0))
    assert accept_len == position
    assert_read(target, position, 1 + LINES, 2 + 2 * LINES)
    assert_read(draft, position, 1 + LINES, 2 + 2 * LINES)


@pytest.mark.parametrize("method", ["token", "block"])
@POSITIONS
def test_normalised_probabilities_cost_a_token_a_row_and_one_pair(read, position, method):
    call = accepted(normalized=True, method=method)
    target, draft, accept_len = read(call, *probabilities(position))
    assert accept_len == position
    assert_read(target, position, LINES, 1 + 2 * LINES)
    assert_read(draft, position, LINES, 1 + 2 * LINES)


@pytest.mark.parametrize("normalized, most", [(True, 2), (False, 6)])
def test_where_float_sums_leave_a_doubt_exact_ones_follow(read, normalized, most):
    """All tokens are about as likely, and each has less than the sums may be off."""
    given = probabilities(1, 1.0 if normalized else 3.0, sharpness=0.02)
    target, draft, accept_len = read(accepted(normalized=normalized), *given)
    assert accept_len == 1
    assert most - 1 < target[1] < most + 4 * LINES
    assert_read(draft, 1, 1 + LINES, most + 4 * LINES)


@POSITIONS
def test_greedy_verification_reads_each_row_once_up_to_the_first_difference(read, position):
    target, draft, _ = probabilities(position)
    tokens = target[:, :K].argmax(-1)
    if position < K:
        tokens[0, position] += 1
    rows, _, accept_len = read(
        lambda package, target, _, tokens: package.verify_greedy(target, tokens),
        target,
        None,
        tokens,
    )
    assert accept_len == position
    assert_read(rows, position, 1 + 2 * LINES, 1 + 2 * LINES)


# ---- Log-probabilities ----

TILES = {"off": 0, "top_k": KEPT, "min_p": 2, "top_p": 2}
FILTERS = {"off": {}, "top_k": {"top_k": TOP_K}, "min_p": {"min_p": 0.01}, "top_p": {"top_p": 0.9}}


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("name", FILTERS)
def test_logprobs_read_the_row_once_more_and_what_the_filter_asks_for(counting, name, penalty):
    """With top-k that is the tiles of kept tokens, once more; with top-p alone the row's mass, the
    end of the nucleus, and the nucleus; with min-p alone what may be kept, and what is."""
    x = round_of(1, 0, VOCAB)[0][:, 0].contiguous()
    given = {"seed": 2, "temperature": 0.8, "repetition_penalty": penalty, **FILTERS[name]}
    given["prev_tokens"] = torch.arange(0, 4000, 100)[None]
    rows = []
    for asks in (False, True):
        counts, _ = counting.reads(
            lambda package, asks=asks: package.sample(x, return_logprobs=asks, **given), x
        )
        rows += counts
    assert rows[0] + 1 <= rows[1] < rows[0] + 1 + TILES[name] + DRAWN


# ---- The counter itself ----


def test_what_is_at_hand_is_not_fetched_again(counting):
    x = torch.zeros(1 << 16)

    def copy(count, times):
        spare = torch.empty_like(x)
        for _ in range(times):
            counting.copy(spare, x, count)

    whole, few = x.numel(), 1 << 10
    for count, times, fetched in ((whole, 1, 1), (whole, 2, 2), (few, 9, few / whole), (0, 1, 0)):
        rows, _ = counting.reads(lambda _, c=count, t=times: copy(c, t), x)
        assert rows[0] == pytest.approx(fetched, abs=0.001)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="NEON's loads may be builtins of g++")
def test_the_target_that_runs_reads_as_the_scalar_one(sdo, counting):
    given = rejected_at(1)
    rows = [*given[0][0], *given[1][0]]
    counts = []
    for target in (sdo._cpu_target(), "scalar"):
        counting.package._cpu_target(target)
        counts.append(counting.reads(lambda package: package.verify(*given, seed=2), *rows)[0])
    for one, other in zip(*counts):
        assert one == pytest.approx(other, abs=0.02)
