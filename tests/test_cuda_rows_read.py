# SPDX-License-Identifier: Apache-2.0
"""How many rows a round of verification reads, from logits and from probabilities, counted by the
emulator.

From logits every row is scanned once and summed at most once, as its normaliser is needed first;
the round's end reads one pair more. Rows after a rejection are not summed. From probabilities it is
the same, unless they are normalised. The coupled rule reads the target's rows once, and no draft.

Where a filter keeps few tokens only the scan reads whole rows: their sums and the residual stay in
the tiles that hold what is kept.
"""

import pytest
import torch
from test_cuda_same_bits import round_of

VOCAB, K = 50257, 3
ROW = VOCAB * 4
SLACK = 2 * 4096 * 4  # a chunk that was on its way, and the tiles at a round's end


@pytest.fixture
def read(emulated):
    """Runs a call; the rows it read of each argument."""

    def run(call):
        emulated.reset_counters()
        result = call(emulated.package)
        return {k: v / ROW for k, v in emulated.counters().bytes_read.items()}, result

    return run


def rejected_at(position, likely=False):
    """Logits and draft tokens of which the one at `position` is impossible, those before sure.
    Where `likely`, each is the draft's most likely one, which all filters keep."""
    target, draft, tokens = round_of(1, K, VOCAB)
    draft[:, :position] = target[:, :position]
    if likely:
        tokens = draft.argmax(-1)
    if position < K:
        target[0, position, tokens[0, position]] = -float("inf")
    return target, draft, tokens


@pytest.mark.parametrize("position", range(K + 1))
def test_rows_read_from_logits(read, position):
    target, draft, tokens = rejected_at(position)
    rows, (accept_len, _) = read(lambda package: package.verify(target, draft, tokens, seed=2))
    assert accept_len.item() == position
    summed, pair = min(position + 1, K + 1), position < K
    slack = SLACK / ROW
    assert abs(rows["target_logits"] - (K + 1 + summed + pair)) < slack
    assert abs(rows["draft_logits"] - (K + min(summed, K) + pair)) < slack


@pytest.mark.parametrize("position", range(K + 1))
def test_rows_read_from_logits_without_a_draft_law(read, position):
    """The residual of a deterministic draft is the target without one token: no row for it."""
    target, _, tokens = rejected_at(position)
    target[0, range(position), tokens[0, :position]] = 100.0
    rows, (accept_len, _) = read(lambda package: package.verify(target, None, tokens, seed=2))
    assert accept_len.item() == position
    assert abs(rows["target_logits"] - (K + 2 + position)) < SLACK / ROW


TOP_K = 50
KEPT = TOP_K * 128 / VOCAB  # of a row: a tile of 128 tokens for each


@pytest.mark.parametrize("algorithm", ["select", "sort"])
@pytest.mark.parametrize("method", ["token", "block"])
@pytest.mark.parametrize("position", range(K + 1))
def test_with_top_k_whole_rows_are_only_scanned(read, position, method, algorithm):
    """The tiles of kept tokens are read for the cut, for the sum, and at the residual."""
    given = rejected_at(position, likely=True)
    rule = {"method": method, "algorithm": algorithm, "top_k": TOP_K}
    rows, (accept_len, _) = read(lambda package: package.verify(*given, seed=2, **rule))
    assert accept_len.item() == position
    whole = 2 if algorithm == "sort" else 1  # it writes keys of all tokens
    summed, pair = min(position + 1, K + 1), position < K
    slack = SLACK / ROW
    of_target, of_draft = rows["target_logits"], rows["draft_logits"]
    assert whole * (K + 1) <= of_target < whole * (K + 1) + (K + 1 + summed + pair) * KEPT + slack
    assert whole * K <= of_draft < whole * K + (K + min(summed, K) + pair) * KEPT + slack


@pytest.mark.parametrize("method", ["token", "block"])
@pytest.mark.parametrize("position", range(K + 1))
def test_with_top_k_verification_reads_less_than_without_a_filter(read, position, method):
    given = rejected_at(position, likely=True)

    def rows_in_all(**rule):
        rows, _ = read(lambda package: package.verify(*given, method=method, seed=2, **rule))
        return rows["target_logits"] + rows["draft_logits"]

    assert rows_in_all(top_k=TOP_K) < 0.8 * rows_in_all()


@pytest.mark.parametrize("position", range(K + 1))
def test_rows_read_from_unnormalised_probabilities(read, position):
    target, draft, tokens = rejected_at(position)
    p, q = 3 * target.softmax(-1), draft.softmax(-1)
    u = torch.full((1, K + 1), 0.5, dtype=torch.float64)
    rows, (accept_len, _) = read(lambda package: package.accept(p, q, tokens, uniforms=u))
    assert accept_len.item() == position
    summed, pair = min(position + 1, K + 1), position < K
    assert abs(rows["target_probs"] - (K + 1 + summed + pair)) < SLACK / ROW
    assert abs(rows["draft_probs"] - (K + min(summed, K) + pair)) < SLACK / ROW


@pytest.mark.parametrize("position", range(K + 1))
def test_rows_read_from_normalised_probabilities(read, position):
    """The pair where the round ends, or the bonus row."""
    target, draft, tokens = rejected_at(position)
    p, q = target.softmax(-1), draft.softmax(-1)
    u = torch.full((1, K + 1), 0.5, dtype=torch.float64)
    rows, (accept_len, _) = read(
        lambda package: package.accept(p, q, tokens, uniforms=u, normalized=True)
    )
    assert accept_len.item() == position
    assert abs(rows["target_probs"] - 1) < SLACK / ROW
    assert abs(rows["draft_probs"] - (position < K)) < SLACK / ROW


@pytest.mark.parametrize("filters", [{}, {"top_k": 50, "top_p": 0.95}])
def test_the_coupled_rule_reads_the_targets_rows_once_and_no_draft(read, filters):
    target, draft, tokens = round_of(1, K, VOCAB)
    rows, _ = read(
        lambda package: package.verify(
            target, draft, tokens, 0.8, seed=2, method="coupled", **filters
        )
    )
    tiles = 50 * 128 / VOCAB if filters else 0
    assert K + 1 <= rows["target_logits"] < (1.03 + tiles) * (K + 1)
    assert rows.get("draft_logits", 0) == 0


@pytest.mark.parametrize("position", range(K + 1))
def test_logprobs_read_each_emitted_row_once_more(read, position):
    target, draft, tokens = rejected_at(position)
    rows, (accept_len, *_) = read(
        lambda package: package.verify(target, draft, tokens, seed=2, return_logprobs=True)
    )
    assert accept_len.item() == position
    its_token = 2 * 32 / VOCAB  # twice by each lane of a warp
    assert rows["logits"] == pytest.approx((position + 1) * (1 + its_token), rel=1e-6)


@pytest.mark.parametrize("filters", [{"top_k": TOP_K}, {"top_k": TOP_K, "repetition_penalty": 1.3}])
def test_logprobs_under_top_k_read_the_row_once_more(read, filters):
    """And the tiles of kept tokens again: to find them, and to sum them."""
    x = round_of(1, 0, VOCAB)[0][:, 0].contiguous()
    given = {"seed": 2, "prev_tokens": torch.arange(40)[None], **filters}
    drawn, token = read(lambda package: package.sample(x, **given))
    rows, (same, _) = read(lambda package: package.sample(x, return_logprobs=True, **given))
    assert torch.equal(token, same)
    assert drawn["logits"] + 1 <= rows["logits"] < drawn["logits"] + 1 + 2 * KEPT + SLACK / ROW
