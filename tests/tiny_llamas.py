# SPDX-License-Identifier: Apache-2.0
"""Llamas of random weights for transformers' `generate`, one like the other or not."""

import pytest
import torch

transformers = pytest.importorskip("transformers")

VOCAB, PAD = 50, 0


def tiny_llama(seed=0, layers=2, vocab=VOCAB, **options):
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        pad_token_id=PAD,
        eos_token_id=None,
        bos_token_id=None,
        **options,
    )
    return transformers.LlamaForCausalLM(config).eval()


def resembling(model, noise=0.02):
    """A draft that is often right: the model with noise on its weights."""
    draft = tiny_llama(layers=model.config.num_hidden_layers, vocab=model.config.vocab_size)
    draft.load_state_dict(model.state_dict())
    g = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += noise * torch.randn(weight.shape, generator=g)
    return draft


def padded_prompts(lengths, seed=1, vocab=VOCAB):
    """(input_ids, attention_mask) with padding on the left."""
    g = torch.Generator().manual_seed(seed)
    width = max(lengths)
    ids = torch.randint(1, vocab, (len(lengths), width), generator=g)
    mask = torch.arange(width) >= width - torch.tensor(lengths)[:, None]
    return ids.where(mask, PAD), mask.long()
