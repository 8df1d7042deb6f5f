# SPDX-License-Identifier: Apache-2.0
"""filter_logits against the transformers processors: `processors(logits.float())`.

Kept sets are equal outside the tie class at the cut, and equal in number inside it (which of its
members transformers keeps is its sort's choice). The exception is a mass within float32 cumsum
error of top_p or min_p: such rows are counted.
"""

from pathlib import Path

import cases
import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

ROWS = Path(__file__).parent / "data" / "smollm2_rows.npz"
CUMSUM_ERROR = 2e-5  # of a float32 running sum over 50,000 probabilities
PROB_ERROR = 1e-5  # relative, of a float32 softmax
BOUNDARY_SHARE = 0.02
FLAT_BOUNDARY_SHARE = 0.1  # where a token's mass is no more than CUMSUM_ERROR

CHAINS = [
    {"top_k": 50},
    {"top_p": 0.9},
    {"top_p": 0.5, "temperature": 0.7},
    {"min_p": 0.05},
    {"temperature": 1.3, "top_k": 40, "top_p": 0.95},
    {"temperature": 0.8, "top_k": 64, "top_p": 0.9, "min_p": 0.02},
    {"temperature": 0.6, "top_p": 0.95, "min_p": 0.1, "repetition_penalty": 1.3},
    {"top_k": 1},
    {"repetition_penalty": 1.1, "temperature": 2.0, "top_k": 200, "min_p": 0.3},
]


def processors(
    logits, prev_tokens, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0
):
    chain = transformers.LogitsProcessorList()
    if repetition_penalty != 1:
        chain.append(transformers.RepetitionPenaltyLogitsProcessor(repetition_penalty))
    if temperature != 1:
        chain.append(transformers.TemperatureLogitsWarper(temperature))
    if top_k:
        chain.append(transformers.TopKLogitsWarper(top_k))
    if top_p < 1:
        chain.append(transformers.TopPLogitsWarper(top_p))
    if min_p:
        chain.append(transformers.MinPLogitsWarper(min_p))
    return chain(prev_tokens, logits.float())


def compare(sdo, logits, chains=CHAINS):
    """The share of rows that lie at a boundary; in all others the kept sets must agree."""
    previous = torch.randint(0, logits.shape[1], (len(logits), 60), generator=generator())
    boundary = 0
    for chain in chains:
        ours = sdo.filter_logits(logits, prev_tokens=previous, **chain)
        theirs = processors(logits, previous, **chain)
        before = processors(logits, previous, **{**chain, "top_p": 1.0, "min_p": 0.0})
        for b in range(len(logits)):
            assert torch.equal(ours[b], before[b].where(ours[b].isfinite(), -torch.inf))
            if not agree(ours[b], theirs[b]):
                assert at_a_boundary(ours[b], theirs[b], before[b], **chain), (b, chain)
                boundary += 1
    return boundary / (len(logits) * len(chains))


def agree(ours, theirs):
    """Equal values are kept equally often: only members of the last tie class may differ."""
    return torch.equal(ours.sort().values, theirs.sort().values)


def at_a_boundary(ours, theirs, before, top_p=1.0, min_p=0.0, **_):
    """Whether the sets differ only by tokens that sums in float32 cannot settle."""
    few, many = sorted([int(ours.isfinite().sum()), int(theirs.isfinite().sum())])
    p = before.double().sort(descending=True).values.softmax(-1)
    mass = p.cumsum(-1)[few - 1 : many - 1]  # of the first n tokens, for each n in question
    near_top_p = top_p < 1 and (mass - top_p).abs().max() < CUMSUM_ERROR
    near_min_p = min_p > 0 and (p[few:many] / (min_p * p[0]) - 1).abs().max() < PROB_ERROR
    return few < many and bool(near_top_p or near_min_p)


def generator():
    return torch.Generator().manual_seed(6)


@pytest.mark.parametrize("family", ["normal", "flat", "peaked", "ties", "ascending"])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_random_rows_keep_the_same_tokens(sdo, family, dtype):
    boundary = 0
    for vocab in (31, 999, 8192):
        boundary += compare(sdo, cases.rows(family, 8, vocab, dtype)) / 3
    assert boundary < BOUNDARY_SHARE


def test_real_rows_keep_the_same_tokens(sdo):
    rows = torch.from_numpy(np.load(ROWS)["rows"].view(np.int16)).view(torch.bfloat16)
    assert compare(sdo, rows) < BOUNDARY_SHARE
    assert compare(sdo, rows.float() / 1.7) < BOUNDARY_SHARE


def test_bfloat16_rows_full_of_ties_keep_the_same_tokens(sdo):
    """50,000 logits of a few hundred values."""
    rows = (cases.rows("normal", 6, 50257) / 4 + 20).to(torch.bfloat16)
    assert len(rows[0].unique()) < 300
    assert rows.float().softmax(-1).median() < CUMSUM_ERROR
    assert compare(sdo, rows) < FLAT_BOUNDARY_SHARE


def test_padding_beyond_the_vocabulary_is_ignored_alike(sdo):
    logits = cases.rows("normal", 4, 100)
    previous = torch.tensor([[3, 3, 100, 100]] * 4)
    chain = {"repetition_penalty": 1.4}
    ours = sdo.filter_logits(logits, prev_tokens=previous, **chain)
    assert torch.equal(ours, processors(logits, previous, **chain))


def test_the_comparison_sees_one_token_too_many(sdo):
    logits = cases.rows("normal", 4, 999)
    ours = sdo.filter_logits(logits, top_k=51)
    theirs = processors(logits, None, top_k=50)
    assert not any(agree(a, b) for a, b in zip(ours, theirs))
    assert not any(at_a_boundary(*rows, top_p=0.9) for rows in zip(ours, theirs, logits))
