# SPDX-License-Identifier: Apache-2.0
"""Batch: the texts of a batch while they are generated, and where they end. Drawing: how their
tokens are drawn."""

from typing import Any, Optional

import torch

from . import _arguments
from ._cached_rows import padded
from ._generation_options import Ends, Filters


class Batch:
    """Rows of texts without their padding.

    `left` is how many tokens each row may still get; 0 where it has ended.
    """

    def __init__(self, input_ids, padding: list[int], max_length: int, pad_token, ends: Ends):
        self.input_ids = input_ids
        self.padding = padding
        self.pad_token = None if pad_token is None else int(pad_token)
        self.ends = ends
        self.prompts = [row[pad:].tolist() for row, pad in zip(input_ids, padding)]
        self.texts = [list(prompt) for prompt in self.prompts]
        self.left = [max_length - input_ids.shape[1]] * len(padding)
        self.finish_reason: Optional[str] = None

    def unfinished(self) -> bool:
        return any(self.left)

    def begins(self, held: list[int], texts: list) -> list[int]:
        """From where a model that holds so many tokens of each text has to read it. A row that has
        ended is kept busy with its last token."""
        rows = zip(held, texts, self.left)
        return [min(n, len(text) - 1) if left else len(text) - 1 for n, text, left in rows]

    def extend(self, b: int, tokens: list[int]) -> list[int]:
        """Adds tokens to row b up to its end; returns those that were added."""
        tokens = tokens[: self.left[b]]
        end = self.ends.first_end(tokens, lambda: self._ids(b, tokens))
        if end is not None:
            tokens = tokens[: end.count]
        self.texts[b] += tokens
        self.left[b] = self.left[b] - len(tokens) if end is None else 0
        if not self.left[b]:
            self.finish_reason = "length" if end is None else end.reason
        return tokens

    def sequences(self) -> torch.Tensor:
        """int64 [B, length]: all texts, padded on both sides."""
        new = [text[len(prompt) :] for text, prompt in zip(self.texts, self.prompts)]
        longest = max(map(len, new))
        if self.pad_token is None and any(len(tokens) < longest for tokens in new):
            raise ValueError("spec_generate: rows end at different lengths, wanted a pad_token_id")
        rows = [tokens + [self.pad_token] * (longest - len(tokens)) for tokens in new]
        ids = self.input_ids
        return torch.cat([ids, torch.tensor(rows, dtype=ids.dtype, device=ids.device)], 1)

    def _ids(self, b: int, tokens: list[int]) -> torch.Tensor:
        """Row b as `generate` would have it with these tokens, [1, length]."""
        padding = self.input_ids[b, : self.padding[b]].tolist()
        return torch.tensor([padding + self.texts[b] + tokens], device=self.input_ids.device)


class Drawing:
    """How tokens are drawn: the filters of `sample`, and which noise belongs to which token.

    Under the coupled rule a token's noise belongs to its position in its text. Under the token rule
    a round of k drafts takes the next k + 1 offsets.
    """

    def __init__(self, filters: Filters, do_sample: bool, coupled: bool, seed: Any, batch: Batch):
        self.filters = filters.arguments if do_sample else {**filters.arguments, "temperature": 0.0}
        self.coupled = coupled or not do_sample
        if seed is None and not do_sample:
            seed = 0  # not read
        self.seed = _seed("spec_generate", seed, len(batch.texts), batch.input_ids.device)
        self.round_offset = 0
        ignored = torch.as_tensor(filters.ignored).expand(len(batch.texts)).tolist()
        self._unpenalised = [max(0, n - pad) for n, pad in zip(ignored, batch.padding)]

    def arguments(self, texts: list, device, j: int = 0) -> dict:
        """What `sample` and `verify` are given for the tokens after `texts`. The texts are as long
        as at the start of the round, and j draft tokens."""
        if self.coupled:
            offset = torch.tensor([len(text) for text in texts], device=device)
        else:
            offset = self.round_offset + j
        seed = self.seed.to(device) if isinstance(self.seed, torch.Tensor) else self.seed
        history = self._history(texts, device)
        return {**self.filters, "seed": seed, "offset": offset, "prev_tokens": history}

    def _history(self, texts: list, device) -> Optional[torch.Tensor]:
        """What the repetition penalty counts: int64 [B, L], padded with -1."""
        if self.filters.get("repetition_penalty", 1.0) == 1.0:
            return None
        seen = [text[begin:] for text, begin in zip(texts, self._unpenalised)]
        return padded(seen, -1).to(device)


def _seed(where: str, seed: Any, rows: int, device) -> Any:
    if seed is None:
        return int(torch.randint(2**63 - 1, (), device=device))
    seed, seeds = _arguments.integer(where, "seed", seed)
    if seeds is None:
        return seed
    if seeds.dtype != torch.int64 or seeds.shape not in ((), (1,), (rows,)):
        given = f"{seeds.dtype} of shape {list(seeds.shape)}"
        raise ValueError(f"{where}: seed is {given}, wanted an int, or int64 [{rows}]")
    return seeds
