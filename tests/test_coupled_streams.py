# SPDX-License-Identifier: Apache-2.0
"""Coupled output is plain sampling, token for token: random models, drafts, k, batches, filters.

A case is a batch of texts that grow at their own speed. Row i of a round has the offset of its
position in the text, and a seed of its own; nothing else is shared with plain sampling.
"""

import random

import pytest
import torch

STATES = 6
VOCABS = [2, 3, 17, 64, 300, 1000, 4099, 50257]
DRAFTS = ["same noise", "other noise", "greedy", "uniform", "constant"]


class Case:
    """Everything random about a case, from its number."""

    def __init__(self, number):
        self.dice = dice = random.Random(number)
        self.vocab = dice.choice(VOCABS)
        self.k = dice.randrange(0, 7)
        self.batch = dice.randrange(1, 5) if self.vocab < 10_000 else dice.randrange(1, 3)
        self.length = dice.randrange(1, 12)
        self.kind = dice.choice(DRAFTS)
        self.ragged = dice.random() < 0.3
        g = torch.Generator().manual_seed(number)
        scale = dice.choice([0.5, 2.0, 6.0])
        self.table = scale * torch.randn(STATES, self.vocab, generator=g)
        if dice.random() < 0.2:
            self.table = self.table.mul(2).round() / 2  # ties
        self.draft_table = self.table + dice.choice([0.1, 1.0, 5.0]) * torch.randn(
            STATES, self.vocab, generator=g
        )
        if dice.random() < 0.3:
            self.table = self.table.to(dice.choice([torch.float16, torch.bfloat16]))
        self.seeds = torch.tensor([dice.getrandbits(62) for _ in range(self.batch)])
        self.filters = {"temperature": dice.choice([0.0, 0.3, 0.8, 1.0, 1.7])}
        if dice.random() < 0.5:
            self.filters["top_k"] = dice.choice([1, 5, 50])
        if dice.random() < 0.5:
            self.filters["top_p"] = dice.choice([0.3, 0.9, 0.999])
        if dice.random() < 0.3:
            self.filters["min_p"] = dice.choice([0.02, 0.3])
        if dice.random() < 0.3:
            self.filters["repetition_penalty"] = dice.choice([0.7, 1.3])

    def state(self, text):
        state = 0
        for token in text:
            state = (5 * state + token + 1) % STATES
        return state

    def history(self, texts):
        """int64 [B, L] padded with -1."""
        if "repetition_penalty" not in self.filters:
            return None
        longest = max(map(len, texts))
        return torch.tensor([[*text, *[-1] * (longest - len(text))] for text in texts])

    def sampled(self, sdo, table, texts, seeds):
        rows = table[[self.state(text) for text in texts]]
        offsets = torch.tensor([len(text) for text in texts])
        history = self.history(texts)
        return sdo.sample(rows, seed=seeds, offset=offsets, prev_tokens=history, **self.filters)

    def next_draft(self, sdo, texts):
        if self.kind == "same noise":
            return self.sampled(sdo, self.draft_table, texts, self.seeds).tolist()
        if self.kind == "other noise":
            return self.sampled(sdo, self.draft_table, texts, self.seeds + 1).tolist()
        if self.kind == "greedy":
            return [int(self.draft_table[self.state(text)].argmax()) for text in texts]
        return [self.dice.randrange(self.vocab) if self.kind == "uniform" else 1 for _ in texts]

    def proposed(self, sdo, texts):
        """[B][k], -1 from where a draft ends."""
        drafts = [[] for _ in texts]
        for _ in range(self.k):
            longer = [[*text, *draft] for text, draft in zip(texts, drafts)]
            for draft, token in zip(drafts, self.next_draft(sdo, longer)):
                draft.append(token)
        for draft in drafts if self.ragged else []:
            end = self.dice.randrange(self.k + 1)
            draft[end:] = [-1] * (self.k - end)
        return drafts


def plain(sdo, case):
    texts = [[0] for _ in range(case.batch)]
    for _ in range(case.length):
        drawn = case.sampled(sdo, case.table, texts, case.seeds).tolist()
        texts = [[*text, token] for text, token in zip(texts, drawn)]
    return texts


def speculative(sdo, case, offset_of=len):
    """(texts, tokens accepted, tokens drafted in vain)"""
    texts, accepted, refused = [[0] for _ in range(case.batch)], 0, 0
    while min(map(len, texts)) <= case.length:
        drafts = case.proposed(sdo, texts)
        states = [
            [case.state([*text, *draft[:i]]) for i in range(case.k + 1)]
            for text, draft in zip(texts, drafts)
        ]
        lengths, out = sdo.verify(
            case.table[torch.tensor(states)],
            None,
            torch.tensor(drafts, dtype=torch.int64).view(case.batch, case.k),
            seed=case.seeds,
            offset=torch.tensor([offset_of(text) for text in texts]),
            prev_tokens=case.history(texts),
            method="coupled",
            **case.filters,
        )
        for text, n, tokens, draft in zip(texts, lengths.tolist(), out.tolist(), drafts):
            text += tokens[: n + 1]
            accepted += n
            refused += n < len([t for t in draft if t >= 0])
    return [text[: case.length + 1] for text in texts], accepted, refused


def check(sdo, numbers):
    accepted = refused = 0
    for number in numbers:
        case = Case(number)
        texts, some, others = speculative(sdo, case)
        assert texts == plain(sdo, case), f"case {number}"
        accepted, refused = accepted + some, refused + others
    assert accepted > len(numbers) and refused > len(numbers)


@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_random_cases_are_plain_sampling_token_for_token(sdo, hundred):
    check(sdo, range(100 * hundred, 100 * (hundred + 1)))


@pytest.mark.stats
def test_ten_thousand_more_are(sdo):
    check(sdo, range(1000, 11_000))


def test_noise_of_the_place_in_the_round_is_another_text(sdo):
    """What the comparison would see, if verification took its noise from elsewhere."""
    cases = [Case(number) for number in range(100)]
    cases = [case for case in cases if case.filters["temperature"] > 0.5 and case.length > 4]
    same = sum(speculative(sdo, case, lambda text: 1)[0] == plain(sdo, case) for case in cases)
    assert same < len(cases) / 2
