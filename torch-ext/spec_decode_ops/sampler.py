# SPDX-License-Identifier: Apache-2.0
"""Sampler: takes the place of a processor chain, softmax and multinomial in a decoding loop."""

from typing import Any, Optional

import torch

from . import _arguments, _generation_options
from ._arguments import Integer, Real
from .sample import sample

_NAME = "Sampler"


class Sampler:
    """Draws the next tokens of a loop, with other noise at each call.

        sampler = Sampler(temperature=0.8, top_p=0.95, seed=7)
        for _ in range(100):
            token = sampler(model(ids).logits[:, -1], ids)  # int64 [B]
            ids = torch.cat([ids, token[:, None]], 1)

    Args:
        temperature, top_k, top_p, min_p, repetition_penalty, seed: those of `sample`. seed=None
            takes one from torch's default generator at the first call.
        offset: that of the first call; each call takes the next one. With the length of the prompt
            a token's noise belongs to its position, and the text is that of `SpeculativeDecoder`
            and `spec_generate` under the coupled rule with the same seed.
    """

    def __init__(
        self,
        temperature: Real = 1.0,
        top_k: Integer = 0,
        top_p: Real = 1.0,
        min_p: Real = 0.0,
        repetition_penalty: Real = 1.0,
        *,
        seed: Optional[Integer] = None,
        offset: Integer = 0,
    ) -> None:
        self.filters: dict[str, Any] = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
        }
        _arguments.chain(_NAME, **self.filters, prev_tokens=None)
        _arguments.noise(_NAME, seed, offset, temperature, None)
        self.seed = seed
        self.offset = offset

    @classmethod
    def from_processors(
        cls, processors: Any, *, seed: Optional[Integer] = None, offset: Integer = 0
    ) -> "Sampler":
        """From transformers' chain of repetition penalty, temperature, top-k, top-p and min-p, in
        this order, each of them or not. Any other processor raises ValueError."""
        filters = _generation_options.filters(_NAME, processors)
        if isinstance(filters.ignored, torch.Tensor) or filters.ignored:
            raise ValueError(f"{_NAME}: prompt_ignore_length is given, wanted None")
        return cls(**filters.arguments, seed=seed, offset=offset)

    def __call__(
        self, logits: torch.Tensor, prev_tokens: Optional[torch.Tensor] = None
    ) -> torch.Tensor:
        """int64 [B] for logits [B, V], or 0-d for [V]. prev_tokens [B, L] is what the repetition
        penalty counts."""
        if self.seed is None:
            self.seed = int(torch.randint(2**63 - 1, (), device=logits.device))
        tokens = sample(
            logits, **self.filters, prev_tokens=prev_tokens, seed=self.seed, offset=self.offset
        )
        self.offset = self.offset + 1
        return tokens
