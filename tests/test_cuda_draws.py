# SPDX-License-Identifier: Apache-2.0
"""Draws of the CUDA library against their law. The emulator runs few, as each is also equal to the
CPU's (test_cuda_same_bits.py), whose law test_sample_figures.py has at full size; a GPU runs that
many too (benchmarks/gpu_check.py). A right sampler fails one check with probability 1e-6
(fit.ALPHA)."""

import fit
import pytest
import torch

DRAWS, VOCAB = 1024, 12
SETTINGS = [{}, {"top_k": 9, "top_p": 0.9}]


def misfit_of(sdo, emulated, arguments, bias=0.0):
    logits = torch.randn(VOCAB, generator=torch.Generator().manual_seed(5))
    law = sdo.filter_logits(logits, **arguments).double().softmax(-1)
    biased = logits.clone()
    biased[logits.argmax()] += bias
    rows = biased.expand(getattr(emulated, "draws", DRAWS), -1)
    tokens = emulated.package.sample(rows, seed=6, **arguments)
    return fit.misfit(torch.bincount(tokens, minlength=VOCAB), law)


@pytest.mark.parametrize("arguments", SETTINGS)
def test_draws_follow_the_filtered_softmax(sdo, emulated, arguments):
    assert misfit_of(sdo, emulated, arguments) < 1


@pytest.mark.parametrize("arguments", SETTINGS)
def test_draws_of_a_sampler_that_favours_a_token_do_not(sdo, emulated, arguments):
    assert misfit_of(sdo, emulated, arguments, bias=0.8) > 1
