# SPDX-License-Identifier: Apache-2.0
"""PromptLookup: it proposes what followed the text's last tokens before."""

import random

import pytest
import torch


@pytest.mark.parametrize(
    ("prefix", "proposed"),
    [
        ([1, 2, 3, 4, 5, 1, 2, 3], [4, 5, 1, 2]),
        ([1, 2, 3, 9, 2, 3, 8, 2, 3], [8, 2, 3, 8]),  # the latest place
        ([1, 2, 3, 9, 2, 3, 8, 1, 2, 3], [9, 2, 3, 8]),  # of the longest match
        ([1, 2, 3, 4, 5], []),
        ([6, 6, 6, 6], [6, 6, 6, 6]),  # beyond the end of the text, the proposal itself
        ([7, 8, 7, 8, 7], [8, 7, 8, 7]),
        ([6], []),
    ],
)
def test_it_proposes_what_followed_the_last_tokens_before(sdo, prefix, proposed):
    assert sdo.PromptLookup(longest=3, shortest=2)(prefix, 4) == (proposed, None)
    assert sdo.PromptLookup()(torch.tensor(prefix), 4) == (proposed, None)


def searched(text, k, longest, shortest):
    """The same by looking through the whole text."""
    for n in range(min(longest, len(text) - 1), shortest - 1, -1):
        for start in range(len(text) - n - 1, -1, -1):
            if text[start : start + n] == text[-n:]:
                grown = list(text)
                for i in range(k):
                    grown.append(grown[start + n + i])
                return grown[len(text) :]
    return []


@pytest.mark.parametrize("vocab", [2, 4, 30])
def test_a_text_that_grows_is_looked_up_as_a_whole_one_would_be(sdo, vocab):
    dice = random.Random(vocab)
    for longest, shortest in ((1, 1), (3, 2), (4, 1)):
        lookup, text = sdo.PromptLookup(longest, shortest), []
        for _ in range(150):
            text += dice.choices(range(vocab), k=dice.randrange(4))
            if text:
                assert lookup(list(text), 5)[0] == searched(text, 5, longest, shortest)


def test_another_text_starts_anew(sdo):
    lookup = sdo.PromptLookup()
    assert lookup([1, 2, 3, 1, 2], 2)[0] == [3, 1]
    assert lookup([5, 1, 2, 4, 1, 2], 2)[0] == [4, 1]
    assert lookup([1, 2], 2)[0] == []


@pytest.mark.parametrize("sizes", [(0, 0), (2, 3), (3, 0)])
def test_sizes_without_meaning_are_refused(sdo, sizes):
    with pytest.raises(ValueError, match="wanted 1 <= shortest <= longest"):
        sdo.PromptLookup(*sizes)
