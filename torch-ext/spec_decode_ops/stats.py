# SPDX-License-Identifier: Apache-2.0
"""DecodeStats: what a decoding loop did, in counts and seconds."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Optional


@dataclass
class DecodeStats:
    """What one call of `generate`, `stream` or `spec_generate` did.

    A round is a draft of one sequence and its verification; a target call serves a round of each
    sequence of a batch. Seconds are wall-clock time on the calling thread: work that a callback
    leaves queued on a GPU counts where its result is waited for.
    """

    rounds: int = 0
    drafted: int = 0  # draft tokens that the target read
    accepted: int = 0  # draft tokens that became output
    emitted: int = 0  # tokens of output, without the prompt
    target_calls: int = 0
    drafted_lengths: Counter = field(default_factory=Counter)  # rounds by `drafted` in them
    accepted_lengths: Counter = field(default_factory=Counter)  # rounds by `accepted` in them
    draft_seconds: float = 0.0
    target_seconds: float = 0.0
    verify_seconds: float = 0.0
    finish_reason: Optional[str] = None  # "eos", "stop" or "length"; None until the text ends

    @property
    def tokens_per_target_call(self) -> float:
        """1 in plain decoding of one sequence; 0 before the first call."""
        return self.emitted / self.target_calls if self.target_calls else 0.0

    @property
    def acceptance_by_position(self) -> list[float]:
        """Of the rounds that drafted a token at position 0, 1, ..., the share that accepted it."""
        return [
            _longer_than(i, self.accepted_lengths) / _longer_than(i, self.drafted_lengths)
            for i in range(max(self.drafted_lengths, default=0))
        ]

    def add_round(self, drafted: int, accepted: int, emitted: int) -> None:
        """Counts a round by its numbers of tokens."""
        self.rounds += 1
        self.drafted += drafted
        self.accepted += accepted
        self.emitted += emitted
        self.drafted_lengths[drafted] += 1
        self.accepted_lengths[accepted] += 1

    def add_target_call(self, start: float, drafted: float, read: float, verified: float) -> None:
        """Counts a target call by when it began, and when each of its three parts was over."""
        self.target_calls += 1
        self.draft_seconds += drafted - start
        self.target_seconds += read - drafted
        self.verify_seconds += verified - read


def _longer_than(i: int, lengths: Counter) -> int:
    return sum(rounds for length, rounds in lengths.items() if length > i)
