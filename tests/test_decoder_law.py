# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder with sampled drafts: continuations of several rounds follow the target."""

import itertools
import random

import fit
import pytest
import torch
from toy_models import ToyModel

VOCAB, LENGTH, CONTINUATIONS = 3, 3, 20_000
LONGER, MANY = 4, 200_000
TARGET, DRAFT = ToyModel(5, VOCAB, 1.0), ToyModel(6, VOCAB, 1.0)
PROMPT = [1, 2]
CHAIN = {"temperature": 1.3, "top_p": 0.9}


def filtered_probs(sdo, model, text, chain):
    return sdo.filter_logits(model.row(text), **chain).double().softmax(-1)


def law(sdo, chain, length):
    """The probability of each continuation under the target, by enumeration."""
    probabilities = []
    for continuation in itertools.product(range(VOCAB), repeat=length):
        p = 1.0
        for i, token in enumerate(continuation):
            text = [*PROMPT, *continuation[:i]]
            p *= float(filtered_probs(sdo, TARGET, text, chain)[token])
        probabilities.append(p)
    return torch.tensor(probabilities)


def misfit(
    sdo,
    inputs,
    chain,
    told=lambda rows: rows,
    length=LENGTH,
    count=CONTINUATIONS,
    adaptive_k=False,
    method=None,
    noise_of_positions=False,
):
    """Of continuations whose drafts are drawn from DRAFT, while the verifier is told
    `told(draft rows)`. With noise_of_positions a position is drafted again with the same noise."""
    dice, laws, number = random.Random(1), {}, 0

    def draft_step(prefix, k):
        text = list(prefix)
        for _ in range(k):
            if tuple(text) not in laws:
                laws[tuple(text)] = filtered_probs(sdo, DRAFT, text, chain).tolist()
            of_position = random.Random(f"{number} {len(text)}") if noise_of_positions else dice
            text += of_position.choices(range(VOCAB), laws[tuple(text)])
        tokens = text[len(prefix) :]
        rows = DRAFT.rows if inputs == "logits" else DRAFT.probs
        return tokens, told(rows(prefix, tokens[:-1]))

    decoder = sdo.SpeculativeDecoder(
        draft_step,
        TARGET.rows if inputs == "logits" else TARGET.probs,
        k=2,
        greedy=False,
        inputs=inputs,
        adaptive_k=adaptive_k,
        method=method,
        generator=torch.Generator().manual_seed(3),
        **chain,
    )
    counts = [0] * VOCAB**length
    for number in range(count):  # noqa: B007  (draft_step reads it)
        place = 0
        for token in decoder.generate(PROMPT, length)[len(PROMPT) :]:
            place = place * VOCAB + token
        counts[place] += 1
    return fit.misfit(torch.tensor(counts), law(sdo, chain, length))


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, "block"])
@pytest.mark.parametrize(("inputs", "chain"), [("probs", {}), ("logits", CHAIN)])
def test_continuations_follow_the_target(sdo, inputs, chain, method):
    assert misfit(sdo, inputs, chain, method=method) < 1


@pytest.mark.slow
@pytest.mark.parametrize(("method", "biased"), [("token", False), ("block", True)])
def test_noise_of_positions_biases_the_block_rule_alone(sdo, method, biased):
    found = misfit(sdo, "probs", {}, method=method, noise_of_positions=True)
    assert (found > 1) == biased


@pytest.mark.slow
def test_the_fit_rejects_drafts_that_were_drawn_from_another_law_than_told(sdo):
    assert misfit(sdo, "probs", {}, told=torch.ones_like) > 1


@pytest.mark.long
@pytest.mark.parametrize(("inputs", "chain"), [("probs", {}), ("logits", CHAIN)])
@pytest.mark.parametrize("adaptive_k", [False, True])
def test_many_longer_continuations_follow_the_target(sdo, inputs, chain, adaptive_k):
    assert misfit(sdo, inputs, chain, length=LONGER, count=MANY, adaptive_k=adaptive_k) < 1


@pytest.mark.long
def test_the_fit_of_many_rejects_drafts_from_another_law_than_told(sdo):
    def slightly_flatter(rows):
        return rows**0.9

    assert misfit(sdo, "probs", {}, slightly_flatter, LONGER, MANY) > 1
