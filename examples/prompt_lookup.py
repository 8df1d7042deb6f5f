# SPDX-License-Identifier: Apache-2.0
"""A draft without a model: what followed the last words, where they stood before in the text.

Prompt lookup decoding (Saxena 2023). It costs microseconds, and pays where the output repeats its
input: summaries, quotations, edits of code.
"""


class PromptLookup:
    """A `draft_step`. Finds the latest earlier place of the text's last n tokens, for n from
    `longest` down to `shortest`, and proposes the tokens that followed it."""

    def __init__(self, longest=3, shortest=2):
        self.longest = longest
        self.shortest = shortest

    def __call__(self, prefix, k):
        for n in range(min(self.longest, len(prefix) - 1), self.shortest - 1, -1):
            tail = prefix[-n:]
            for start in range(len(prefix) - n - 1, -1, -1):
                if prefix[start : start + n] == tail:
                    return prefix[start + n : start + n + k], None
        return [], None
