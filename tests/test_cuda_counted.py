# SPDX-License-Identifier: Apache-2.0
"""What the CUDA ops cost, counted by the emulator: launches, and how often each logit is read."""

import pytest
import torch
from cases import rows
from test_cuda_same_bits import round_of

VOCAB = 128256


def reads(counted, x, **arguments):
    """(the launches, how often the average logit is read) of one sample call"""
    names, read = counted(lambda package: package.sample(x, seed=1, **arguments))
    return names, read["logits"] / (x.numel() * x.element_size())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_unfiltered_draw_reads_each_logit_once(counted, dtype):
    """And once more, from a cache, the few that are scored: the 1 in 256 with a zero noise byte,
    and what may still beat the best of those."""
    names, passes = reads(counted, rows("normal", 2, VOCAB, dtype), temperature=0.8)
    assert names == ["scan_kernel", "sample_kernel"]
    assert 1 <= passes < 1.03


@pytest.mark.parametrize("family", ["normal", "flat", "peaked"])
def test_one_warp_of_a_block_mostly_scores_for_all(emulated, counted, family):
    """So its instructions are counted as an eighth (cuda_static/kernels.py). Where the others help,
    they meet at one more barrier than the four of every block."""
    blocks = 64
    names, _ = reads(counted, rows(family, 1, 4096 * blocks), temperature=0.8)
    assert names == ["scan_kernel", "sample_kernel"]
    assert 0 <= emulated.counters().barriers - 4 * blocks <= blocks / 6


def test_a_greedy_draw_reads_each_logit_once(counted):
    """And again one tile, by each warp of the block that finishes the row."""
    names, passes = reads(counted, rows("normal", 2, VOCAB), temperature=0.0)
    assert names == ["scan_kernel", "sample_kernel"]
    assert 1 <= passes < 1.01


def test_top_k_reads_the_row_once_and_k_tiles(counted):
    chain = {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "min_p": 0.05}
    names, passes = reads(counted, rows("normal", 2, VOCAB), **chain)
    assert names == ["scan_kernel", "sample_kernel"]
    assert 1 <= passes < 1.05 + 0.001


def test_top_p_alone_reads_the_row_twice_when_the_draw_is_in_the_nucleus(counted):
    names, passes = reads(counted, rows("peaked", 1, VOCAB), top_p=0.99)
    assert names == ["scan_kernel", "bin_kernel", "sample_kernel"]
    assert 2 <= passes < 2.03


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", ["normal", "flat", "peaked"])
def test_top_p_alone_reads_the_row_three_times_at_most(counted, family, seed):
    """Where the draw is not clearly in the nucleus or out of it, the tokens near its end are
    listed; where it is out, a chunk draws again."""
    x = rows(family, 1, VOCAB)
    chain = {"temperature": 0.8, "top_p": 0.5, "seed": seed}
    names, read = counted(lambda package: package.sample(x, **chain))
    assert names == ["scan_kernel", "bin_kernel", "sample_kernel"]
    assert read["logits"] < 3.3 * x.numel() * 4


def test_the_end_of_the_nucleus_is_listed_in_one_reading(counted):
    """After the scan and the bins, and before what is written."""
    x = rows("normal", 1, VOCAB)
    names, read = counted(lambda package: package.filter_logits(x, top_p=0.95, temperature=0.8))
    assert names == ["scan_kernel", "bin_kernel", "cut_kernel", "write_kernel"]
    assert read["logits"] < 4.01 * x.numel() * 4


def test_parameters_on_the_device_cost_no_launch_but_that_of_masses(counted):
    tensors = {"temperature": torch.tensor([0.8]), "top_k": torch.tensor([50])}
    names, passes = reads(counted, rows("normal", 2, VOCAB), **tensors)
    assert names == ["scan_kernel", "sample_kernel"] and passes < 1.06


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_verification_reads_each_row_twice_and_one_pair(counted, dtype):
    target, draft, tokens = round_of(1, 3, 50257, dtype=dtype)
    names, read = counted(lambda package: package.verify(target, draft, tokens, seed=2))
    assert names == ["scan_kernel", "mass_kernel", "pair_kernel", "pick_kernel"]
    row = 50257 * target.element_size()
    assert 5 * row <= read["target_logits"] <= 9.02 * row
    assert 4 * row <= read["draft_logits"] <= 7.02 * row


def test_rows_after_a_rejection_are_not_summed(counted):
    """A draft of which nothing is accepted: the first position's pair is read again, and once more
    for the residual."""
    target, draft, tokens = round_of(1, 3, 50257)
    target[0, 0, tokens[0, 0]] = -float("inf")
    names, read = counted(lambda package: package.verify(target, draft, tokens, seed=2))
    assert names == ["scan_kernel", "mass_kernel", "pair_kernel", "pick_kernel"]
    row = 50257 * 4
    assert read["target_logits"] <= (4 + 1 + 1) * row + 2 * 4096 * 4
    assert read["draft_logits"] <= (3 + 1 + 1) * row + 2 * 4096 * 4


def test_a_draft_of_tokens_alone_costs_no_pair(counted):
    """Its residual is the target's row without one token, whose masses are known."""
    target, _, tokens = round_of(1, 3, 50257)
    names, read = counted(lambda package: package.verify(target, None, tokens, seed=2))
    assert names == ["scan_kernel", "mass_kernel", "pick_kernel"]
    assert read["target_logits"] <= 8.01 * 50257 * 4


def test_coupled_verification_reads_each_row_once(counted):
    target, _, tokens = round_of(1, 3, 50257)
    names, read = counted(
        lambda package: package.verify(target, None, tokens, seed=2, method="coupled")
    )
    assert names == ["scan_kernel", "sample_kernel", "follow_kernel"]
    assert read["target_logits"] < 1.04 * 4 * 50257 * 4  # once, and the few that are scored


def test_normalised_acceptance_reads_one_pair(counted):
    target, draft, tokens = round_of(1, 3, 50257)
    p, q = target.softmax(-1), draft.softmax(-1)
    u = torch.full((1, 4), 0.5, dtype=torch.float64)
    names, read = counted(lambda package: package.accept(p, q, tokens, uniforms=u, normalized=True))
    assert names == ["pair_kernel", "pick_kernel"]
    assert read["target_probs"] + read["draft_probs"] < 2.1 * 50257 * 4


def test_greedy_verification_reads_each_row_once(counted):
    target, _, tokens = round_of(1, 3, 50257)
    names, read = counted(lambda package: package.verify_greedy(target, tokens))
    assert names == ["scan_kernel", "pick_kernel"]
    assert read["target_probs"] < 1.02 * 4 * 50257 * 4


def test_filtering_writes_each_value_once(emulated, counted):
    x = rows("normal", 1, 50257)
    names, read = counted(lambda package: package.filter_logits(x, top_k=50))
    assert names == ["scan_kernel", "cut_kernel", "write_kernel"]
    assert read["logits"] < 2.2 * x.numel() * 4
    assert emulated.counters().bytes_written["allocated"] == x.numel() * 4
