# SPDX-License-Identifier: Apache-2.0
"""spec_generate with sampled drafts under the token rule, thousands of rows a batch: continuations
follow the law of the target, which is enumerated."""

import itertools

import fit
import pytest
import torch
from tiny_llamas import resembling, tiny_llama

pytestmark = pytest.mark.usefixtures("one_thread")

VOCAB, PROMPT, ROWS = 4, [1, 2], 5000
TARGET = tiny_llama(3, 1, VOCAB)
DRAFT = resembling(TARGET, 0.3)
CHAIN = {"temperature": 1.5, "top_k": 3, "repetition_penalty": 1.2}


def law(sdo, model, length):
    """The probability of each continuation, by enumeration."""
    continuations = torch.tensor(list(itertools.product(range(VOCAB), repeat=length)))
    texts = torch.cat([torch.tensor(PROMPT).expand(len(continuations), -1), continuations], 1)
    with torch.inference_mode():
        logits = model(texts).logits
    p = torch.ones(len(texts), dtype=torch.float64)
    for i in range(length):
        seen = len(PROMPT) + i
        row = sdo.filter_logits(logits[:, seen - 1], prev_tokens=texts[:, :seen], **CHAIN)
        p *= row.double().softmax(-1).gather(1, texts[:, seen : seen + 1])[:, 0]
    return p


def counted(sdo, length, batches, **options):
    counts = torch.zeros(VOCAB**length)
    powers = VOCAB ** torch.arange(length - 1, -1, -1)
    for seed in range(batches):
        stats = sdo.DecodeStats()
        out = TARGET.generate(
            torch.tensor(PROMPT).expand(ROWS, -1), max_new_tokens=length, do_sample=True, seed=seed,
            custom_generate=sdo.spec_generate, assistant_model=DRAFT, stats=stats, **CHAIN,
            **options,
        )  # fmt: skip
        counts += ((out[:, -length:] * powers).sum(1)).bincount(minlength=VOCAB**length)
        assert 0 < stats.accepted < stats.drafted
    return counts


OPTIONS = {"method": "token", "k": 2, "adaptive_k": False}


@pytest.mark.slow
def test_continuations_follow_the_target_and_not_a_model_that_resembles_it(sdo):
    counts = counted(sdo, 3, 1, **OPTIONS)
    assert fit.misfit(counts, law(sdo, TARGET, 3)) < 1
    assert fit.misfit(counts, law(sdo, DRAFT, 3)) > 1


@pytest.mark.long
@pytest.mark.parametrize("method", ["token", "coupled"])
def test_many_longer_continuations_follow_the_target(sdo, method):
    counts = counted(sdo, 4, 40, **{**OPTIONS, "method": method})
    assert fit.misfit(counts, law(sdo, TARGET, 4)) < 1
