# SPDX-License-Identifier: Apache-2.0
"""Where a text ends: at the first end-of-sequence token, or where a stop sequence is complete."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import torch

from . import _callbacks


class End(NamedTuple):
    """The text ends after `count` of the tokens looked at, for a reason."""

    count: int  # type: ignore[assignment]  # a tuple has a method of this name
    reason: str


class Stopping:
    """The end-of-sequence ids and stop sequences of a call, by which new tokens are cut.

    Both stay in the text. A stop sequence counts where all of it is new: the prompt ends nothing.
    """

    def __init__(self, where: str, eos_token_id: Any, stop: Any):
        self.eos_token_ids = _eos_token_ids(where, eos_token_id)
        self.sequences = _sequences(where, stop)
        self.longest = max(map(len, self.sequences), default=0)

    def first_end(self, earlier: Sequence[int], emitted: Sequence[int]) -> Optional[End]:
        """The first end among `emitted`, which follow the new tokens `earlier`."""
        text = [*earlier[max(0, len(earlier) - self.longest) :], *emitted]
        begin = len(text) - len(emitted)
        for i, token in enumerate(emitted):
            if token in self.eos_token_ids:
                return End(i + 1, "eos")
            end = begin + i + 1
            for sequence in self.sequences:
                if text[max(0, end - len(sequence)) : end] == sequence:
                    return End(i + 1, "stop")
        return None


def _eos_token_ids(where: str, ids: Any) -> frozenset:
    if ids is None:
        return frozenset()
    if not isinstance(ids, (list, tuple, set, frozenset)):
        ids = [ids]
    return frozenset(_callbacks.integer(where, "eos_token_id", each) for each in ids)


def _sequences(where: str, stop: Any) -> list[list[int]]:
    if stop is None:
        return []
    wanted = "wanted a list of sequences of token ids"
    if not isinstance(stop, (list, tuple)):
        raise TypeError(f"{where}: stop is a {type(stop).__name__}, {wanted}")
    sequences = []
    for i, sequence in enumerate(stop):
        if isinstance(sequence, torch.Tensor):
            sequence = sequence.tolist()
        if not isinstance(sequence, (list, tuple)):
            raise TypeError(f"{where}: stop[{i}] is {sequence!r}, {wanted}")
        if not sequence:
            raise ValueError(f"{where}: stop[{i}] is empty, wanted at least one token")
        sequences.append([_callbacks.integer(where, f"stop[{i}]", each) for each in sequence])
    return sequences
