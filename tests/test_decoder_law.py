# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder with sampled drafts: continuations of several rounds follow the target."""

import itertools
import random

import fit
import pytest
import torch
from toy_models import ToyModel

VOCAB, LENGTH, CONTINUATIONS = 3, 3, 20_000
TARGET, DRAFT = ToyModel(5, VOCAB, 1.0), ToyModel(6, VOCAB, 1.0)
PROMPT = [1, 2]
CHAIN = {"temperature": 1.3, "top_p": 0.9}


def filtered_probs(sdo, model, text, chain):
    return sdo.filter_logits(model.row(text), **chain).double().softmax(-1)


def law(sdo, chain):
    """The probability of each continuation under the target, by enumeration."""
    probabilities = []
    for continuation in itertools.product(range(VOCAB), repeat=LENGTH):
        p = 1.0
        for i, token in enumerate(continuation):
            text = [*PROMPT, *continuation[:i]]
            p *= float(filtered_probs(sdo, TARGET, text, chain)[token])
        probabilities.append(p)
    return torch.tensor(probabilities)


def misfit(sdo, inputs, chain, told=lambda rows: rows):
    """Of continuations whose drafts are drawn from DRAFT, while the verifier is told
    `told(draft rows)`."""
    dice, laws = random.Random(1), {}

    def draft_step(prefix, k):
        text = list(prefix)
        for _ in range(k):
            if tuple(text) not in laws:
                laws[tuple(text)] = filtered_probs(sdo, DRAFT, text, chain).tolist()
            text += dice.choices(range(VOCAB), laws[tuple(text)])
        tokens = text[len(prefix) :]
        rows = DRAFT.rows if inputs == "logits" else DRAFT.probs
        return tokens, told(rows(prefix, tokens[:-1]))

    decoder = sdo.SpeculativeDecoder(
        draft_step,
        TARGET.rows if inputs == "logits" else TARGET.probs,
        k=2,
        greedy=False,
        inputs=inputs,
        generator=torch.Generator().manual_seed(3),
        **chain,
    )
    counts = torch.zeros(VOCAB**LENGTH)
    for _ in range(CONTINUATIONS):
        a, b, c = decoder.generate(PROMPT, LENGTH)[len(PROMPT) :]
        counts[(a * VOCAB + b) * VOCAB + c] += 1
    return fit.misfit(counts, law(sdo, chain))


@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "chain"), [("probs", {}), ("logits", CHAIN)])
def test_continuations_follow_the_target(sdo, inputs, chain):
    assert misfit(sdo, inputs, chain) < 1


@pytest.mark.slow
def test_the_fit_rejects_drafts_that_were_drawn_from_another_law_than_told(sdo):
    assert misfit(sdo, "probs", {}, told=torch.ones_like) > 1
