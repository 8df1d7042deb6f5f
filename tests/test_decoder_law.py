# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder with sampled drafts: continuations of several rounds follow the target."""

import itertools

import fit
import pytest
import torch
from toy_models import ToyModel, soft_draft

LAW_VOCAB, LAW_LENGTH, CONTINUATIONS = 3, 3, 20_000
LAW_TARGET = ToyModel(5, LAW_VOCAB, 1.0)
LAW_DRAFT = ToyModel(6, LAW_VOCAB, 1.0)


def continuation_law(chain, sdo):
    """The probability of each continuation under the target, by enumeration."""
    law = []
    for text in itertools.product(range(LAW_VOCAB), repeat=LAW_LENGTH):
        p = 1.0
        for i, token in enumerate(text):
            row = sdo.filter_logits(LAW_TARGET.row([1, 2, *text[:i]]), **chain)
            p *= float(row.double().softmax(-1)[token])
        law.append(p)
    return torch.tensor(law)


def misfit_of(decoder, law):
    counts = torch.zeros(LAW_VOCAB**LAW_LENGTH)
    for _ in range(CONTINUATIONS):
        a, b, c = decoder.generate([1, 2], LAW_LENGTH)[2:]
        counts[(a * LAW_VOCAB + b) * LAW_VOCAB + c] += 1
    return fit.misfit(counts, law)


def law_decoder(sdo, told, inputs, **chain):
    """Drafts are drawn from LAW_DRAFT, and the verifier is told `told(rows)`."""
    honest = soft_draft(LAW_DRAFT, 1, as_logits=inputs == "logits")

    def draft_step(prefix, k):
        tokens, rows = honest(prefix, k)
        return tokens, told(rows)

    randomness = {"generator": torch.Generator().manual_seed(3)}
    target = LAW_TARGET.rows if inputs == "logits" else LAW_TARGET.probs
    return sdo.SpeculativeDecoder(
        draft_step, target, k=2, greedy=False, inputs=inputs, **randomness, **chain
    )


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["probs", "logits"])
def test_sampled_continuations_follow_the_target(sdo, inputs):
    decoder = law_decoder(sdo, lambda rows: rows, inputs)
    assert misfit_of(decoder, continuation_law({}, sdo)) < 1


@pytest.mark.slow
def test_sampled_continuations_reject_a_soft_draft_that_claims_to_be_deterministic(sdo):
    decoder = law_decoder(sdo, lambda rows: None, "probs")
    assert misfit_of(decoder, continuation_law({}, sdo)) > 1
