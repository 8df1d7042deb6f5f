# SPDX-License-Identifier: Apache-2.0
"""Sampler: the place of processors, softmax and multinomial in a user's own loop."""

import pytest
import torch
from toy_models import DRAFTS, PROMPT, TARGET

CHAIN = {
    "temperature": 0.8,
    "top_k": 9,
    "top_p": 0.9,
    "min_p": 0.02,
    "repetition_penalty": 1.3,
}


def decode(sampler, new):
    ids = torch.tensor([PROMPT])
    for _ in range(new):
        token = sampler(TARGET.row(ids[0])[None], ids)
        ids = torch.cat([ids, token[:, None]], 1)
    return ids[0].tolist()


def test_from_the_length_of_the_prompt_its_text_is_that_of_the_coupled_decoder(sdo):
    decoder = sdo.SpeculativeDecoder(
        DRAFTS["other"], TARGET.rows, greedy=False, inputs="logits", seed=4, **CHAIN
    )
    sampler = sdo.Sampler(**CHAIN, seed=4, offset=len(PROMPT))
    assert decode(sampler, 30) == decoder.generate(PROMPT, 30)


def test_each_call_takes_the_next_noise(sdo):
    logits = torch.zeros(3, 1000)
    sampler = sdo.Sampler(seed=2, offset=5)
    drawn = [sampler(logits) for _ in range(3)]
    assert all(
        torch.equal(tokens, sdo.sample(logits, seed=2, offset=5 + i))
        for i, tokens in enumerate(drawn)
    )
    assert not torch.equal(drawn[0], drawn[1])


def test_a_seed_that_is_not_given_is_taken_once_from_torch(sdo):
    texts = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        texts.append(decode(sdo.Sampler(), 20))
    assert texts[0] == texts[1] != texts[2]


def test_a_chain_of_processors_becomes_its_filters(sdo):
    transformers = pytest.importorskip("transformers")
    chain = transformers.LogitsProcessorList(
        [
            transformers.RepetitionPenaltyLogitsProcessor(1.3),
            transformers.TemperatureLogitsWarper(0.8),
            transformers.TopKLogitsWarper(9),
            transformers.TopPLogitsWarper(0.9),
            transformers.MinPLogitsWarper(0.02),
        ]
    )
    assert sdo.Sampler.from_processors(chain).filters == CHAIN
    assert decode(sdo.Sampler.from_processors(chain, seed=3), 9) == decode(
        sdo.Sampler(**CHAIN, seed=3), 9
    )
    assert sdo.Sampler.from_processors([]).filters["temperature"] == 1.0
    with pytest.raises(ValueError, match="logits processor MinLengthLogitsProcessor is not"):
        sdo.Sampler.from_processors([transformers.MinLengthLogitsProcessor(3, 2)])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"top_p": "0.9"}, TypeError, "Sampler: top_p is '0.9', wanted a real number"),
        ({"temperature": float("nan")}, ValueError, "Sampler: temperature is nan"),
        ({"seed": 1.5}, TypeError, "Sampler: seed is 1.5, wanted an integer"),
        ({"offset": -1}, ValueError, "Sampler: offset is -1, wanted 0 <= offset < 2\\*\\*60"),
    ],
)
def test_a_parameter_without_meaning_is_refused_at_once(sdo, options, error, text):
    with pytest.raises(error, match=text):
        sdo.Sampler(**options)
