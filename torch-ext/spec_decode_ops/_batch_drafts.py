# SPDX-License-Identifier: Apache-2.0
"""Drafts for a batch of texts: by prompt lookup in each, or by a smaller transformers model."""

from typing import NamedTuple, Optional

import torch

from ._batch import Batch, Drawing
from ._cached_rows import CachedRows, reading
from .prompt_lookup import PromptLookup
from .sample import sample


class Drafts(NamedTuple):
    """Draft tokens for each row, and the logits [B, k, V'] they were drawn from, or None."""

    tokens: list[list[int]]
    logits: Optional[torch.Tensor] = None


class LookupDrafts:
    """A PromptLookup for each row."""

    def __init__(self, rows: int, longest: int):
        self._rows = [PromptLookup(longest, min(2, longest)) for _ in range(rows)]

    def propose(self, batch: Batch, drawing: Drawing, limits: list[int]) -> Drafts:
        rows = zip(self._rows, batch.texts, limits)
        return Drafts([row(text, k)[0] if k else [] for row, text, k in rows])

    def cut(self, lengths: list[int]) -> None:
        """Nothing was read that could be wrong."""


class ModelDrafts:
    """Tokens that an assistant model draws one after another, with the target's filters, and under
    the coupled rule with the target's noise."""

    def __init__(self, assistant: CachedRows):
        self._assistant = assistant

    def propose(self, batch: Batch, drawing: Drawing, limits: list[int]) -> Drafts:
        texts, rows = [list(text) for text in batch.texts], []
        for j in range(max(limits)):
            begins = batch.begins(self._assistant.held(), texts)
            row = self._assistant.read(reading(texts, begins, [[]] * len(texts)), 1)[:, 0]
            tokens = sample(row, **drawing.arguments(texts, row.device, j))
            rows.append(row)
            for text, token in zip(texts, tokens.tolist()):
                text.append(token)
        drafts = [
            grown[len(text) : len(text) + limit]
            for grown, text, limit in zip(texts, batch.texts, limits)
        ]
        return Drafts(drafts, torch.stack(rows, 1) if rows and not drawing.coupled else None)

    def cut(self, lengths: list[int]) -> None:
        """Takes back what was read beyond these lengths of the texts."""
        self._assistant.cut(lengths)
