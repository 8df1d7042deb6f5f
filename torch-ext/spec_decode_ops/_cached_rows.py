# SPDX-License-Identifier: Apache-2.0
"""CachedRows: a transformers model that reads a batch of texts of different lengths, each token
once, and can take back what it read.

A cache has the same number of slots for every row of a batch, but speculation accepts a different
number of tokens in each. So `places` says, for each slot, which token of its row's text it holds,
or -1 for none: padding, or a token that was taken back. Attention masks and position ids follow
from it. Slots that no row uses at the end are cropped; holes in the middle are moved out when they
are many, or when a cache of fixed size runs out of slots.
"""

from typing import NamedTuple

import torch

HOLES = 8  # move holes out when they are more than a slot in so many, ...
FEW_HOLES = 16  # ... and more than this


class Reading(NamedTuple):
    """Tokens to read, [B, n]; and where each stands in its row's text, -1 for padding."""

    tokens: torch.Tensor
    places: torch.Tensor


def padded(rows: list, filler: int) -> torch.Tensor:
    """Lists as rows of one int64 tensor, padded on the right."""
    width = max(map(len, rows))
    filled = [[*row, *[filler] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.int64).reshape(len(rows), width)


def reading(texts: list, begins: list[int], drafts: list) -> Reading:
    """texts[b][begins[b] :] padded on the left, then drafts[b] padded on the right."""
    unread = [len(text) - begin for text, begin in zip(texts, begins)]
    most = max(unread)
    left = [most - n for n in unread]
    rows = list(zip(left, texts, begins, drafts))
    tokens = [[*[0] * pad, *text[begin:], *draft] for pad, text, begin, draft in rows]
    places = [
        [*[-1] * pad, *range(begin, len(text) + len(draft))] for pad, text, begin, draft in rows
    ]
    return Reading(padded(tokens, 0), padded(places, -1))


class CachedRows:
    """`model` with `cache`, which holds nothing, or the first `held` tokens of one text."""

    def __init__(self, model, cache, rows: int, held: int = 0, cache_name: str = "cache"):
        self.model = model
        self.cache = cache
        self.cache_name = cache_name
        self.places = torch.arange(held).expand(rows, -1).clone()
        self.vocab = model.get_input_embeddings().weight.shape[0]
        self.reads_last_rows_only = model._supports_logits_to_keep()
        cache.activate_past_recording()

    def held(self) -> list[int]:
        """How many tokens of each row's text the cache holds: the first so many."""
        return (self.places >= 0).sum(1).tolist()

    def size(self) -> float:
        """How many slots the cache has, at most."""
        return self.cache.get_max_length() if self.cache.is_compileable else float("inf")

    def room(self) -> float:
        """How many more tokens of a row it can hold."""
        return self.size() - max(self.held())

    def read(self, new: Reading, keep: int) -> torch.Tensor:
        """Logits [B, keep, V], those after each of the last `keep` tokens of `new`."""
        if self.places.shape[1] + new.tokens.shape[1] > self.size():
            self._move_holes_out()
        device = self.model.device
        places = torch.cat([self.places, new.places], 1)
        mask = None if (places >= 0).all() else (places >= 0).long().to(device)
        inputs = self.model.prepare_inputs_for_generation(
            new.tokens.clamp(0, self.vocab - 1).to(device),
            attention_mask=mask,
            position_ids=new.places.clamp(min=0).to(device),
            is_first_iteration=not self.places.numel(),
            use_cache=True,
            **{self.cache_name: self.cache},
            **({"logits_to_keep": keep} if self.reads_last_rows_only else {}),
        )
        logits = self.model(**inputs, return_dict=True).logits
        if not self.places.numel():
            self._check_cache()
        self.places = places
        return logits[:, -keep:]

    def _check_cache(self) -> None:
        """Raises where what was read could not be taken back. Layers know once they were used."""
        kind, rows = type(self.cache).__name__, self.places.shape[0]
        if not self.cache.is_croppable:
            raise ValueError(
                f"spec_generate: the {kind} cannot be cropped, which speculation needs"
            )
        if rows > 1 and any(self.cache.is_sliding):
            raise ValueError(
                f"spec_generate: the {kind} has sliding-window layers and the batch {rows} rows, "
                "wanted 1"
            )

    def cut(self, lengths: list[int]) -> None:
        """Takes back what row b read of its text from token lengths[b] on."""
        self.places[self.places >= torch.tensor(lengths)[:, None]] = -1
        used = (self.places >= 0).any(0).nonzero()
        slots = int(used[-1]) + 1 if len(used) else 0
        self._crop(slots)
        holes = slots - max(self.held())
        if holes > max(slots // HOLES, FEW_HOLES):
            self._move_holes_out()

    def _crop(self, slots: int) -> None:
        self.cache.crop(slots - self.places.shape[1])
        self.places = self.places[:, :slots]

    def _move_holes_out(self) -> None:
        """Each row's tokens in its last slots, in their order; slots that are a hole in every row
        are dropped."""
        held = max(self.held())
        order = (self.places >= 0).long().argsort(dim=1, stable=True)
        order = order[:, order.shape[1] - held :]
        for layer in self.cache.layers:
            for states in (layer.keys, layer.values):
                index = order.to(states.device)[:, None, :, None]
                index = index.expand(-1, states.shape[1], -1, states.shape[3])
                states[:, :, :held] = states.gather(2, index)
        moved = self.places.gather(1, order)
        self._crop(held)
        self.places = moved
