# SPDX-License-Identifier: Apache-2.0
"""PromptLookup: a draft without a model.

It proposes what followed the text's last tokens where they stood before (prompt lookup decoding,
Saxena 2023). It costs microseconds, and pays where the output repeats its input or itself:
summaries, quotations, edits of code.
"""

from ._callbacks import Ids


class PromptLookup:
    """A `draft_step` that finds the latest earlier place of the text's last n tokens, for n from
    `longest` down to `shortest`, and proposes the tokens that followed it. Where they reach the
    end of the text they go on with the proposal itself, as a text that repeats itself would.

    The places are remembered from call to call, so that a token of a growing text is looked at
    once; another text starts anew.
    """

    def __init__(self, longest: int = 3, shortest: int = 2) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(
                f"PromptLookup: shortest is {shortest} and longest {longest}, "
                "wanted 1 <= shortest <= longest"
            )
        self.longest = longest
        self.shortest = shortest
        self._text: list[int] = []
        self._after: dict[
            tuple[int, ...], int
        ] = {}  # what tokens -> where the token after them stands, at its latest

    def __call__(self, prefix: Ids, k: int) -> tuple[list[int], None]:
        """(tokens, None): up to k tokens to follow `prefix`, a list or 1-D tensor of ids."""
        if not isinstance(prefix, list):
            prefix = prefix.tolist()
        self._remember(prefix)
        for n in range(min(self.longest, len(prefix) - 1), self.shortest - 1, -1):
            place = self._after.get(tuple(prefix[-n:]))
            if place is not None:
                return self._copied(place, k), None
        return [], None

    def _copied(self, place: int, k: int) -> list[int]:
        source, period = self._text, len(self._text) - place
        return [source[place + i % period] for i in range(k)]

    def _remember(self, text: list[int]) -> None:
        known = len(self._text)
        if text[:known] != self._text:
            self._text, self._after, known = [], {}, 0
        self._text += text[known:]
        for place in range(known, len(text)):
            for n in range(self.shortest, min(self.longest, place) + 1):
                self._after[tuple(text[place - n : place])] = place
