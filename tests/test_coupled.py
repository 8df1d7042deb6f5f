# SPDX-License-Identifier: Apache-2.0
"""verify(method="coupled"): speculation that nobody can see."""

import cases
import pytest
import torch
from cases import FILTERS
from oracle import oracle
from test_verify import OFFSET, SEED, a_batch, emitted, verify, with_history


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("vocab", [4, 999])
def test_coupled_rounds_are_the_oracles(sdo, vocab, name):
    for family in ("normal", "ties", "holes"):
        target, _, tokens = a_batch(family, 5, 3, vocab)
        tokens[3, 1] = -1
        arguments = with_history(FILTERS[name], 5, vocab)
        lengths, rows = [], []
        for b in range(5):
            n, token = oracle.verify_coupled(
                target[b],
                tokens[b].tolist(),
                cases.filter_of(arguments, b),
                oracle.Place(SEED, OFFSET, b),
                cases.previous_of(arguments, b),
            )
            lengths.append(n)
            rows.append(emitted(tokens[b], n, token))
        assert verify(sdo, target, None, tokens, method="coupled", **arguments) == (lengths, rows)


class ToyModel:
    """Logits that depend on the last two tokens."""

    def __init__(self, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.table = 2 * torch.randn(vocab, vocab, vocab, generator=g)

    def __call__(self, prefix):
        return self.table[prefix[-2], prefix[-1]]


VOCAB, LENGTH = 24, 40
PARAMETERS = {"temperature": 0.9, "top_k": 8, "top_p": 0.9, "repetition_penalty": 1.5}


def plain(sdo, target, prompt, seed):
    tokens = list(prompt)
    while len(tokens) < LENGTH:
        token = sdo.sample(
            target(tokens),
            seed=seed,
            offset=len(tokens),
            prev_tokens=torch.tensor(tokens),
            **PARAMETERS,
        )
        tokens.append(token.item())
    return tokens


def speculative(sdo, target, draft, prompt, seed, k):
    """Rounds of k drafts; offset is the absolute position, for the draft too."""
    tokens, accepted = list(prompt), 0
    while len(tokens) < LENGTH:
        proposed = []
        for _ in range(k):
            here = [*tokens, *proposed]
            proposed.append(draft(here, len(here)))
        rows = [target([*tokens, *proposed[:i]]) for i in range(k + 1)]
        accept_len, out = sdo.verify(
            torch.stack(rows)[None],
            None,
            torch.tensor([proposed], dtype=torch.int64),
            seed=seed,
            offset=len(tokens),
            prev_tokens=torch.tensor([tokens]),
            method="coupled",
            **PARAMETERS,
        )
        n = accept_len.item()
        accepted += n
        tokens += out[0, : n + 1].tolist()
    return tokens[:LENGTH], accepted


@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("kind", ["sampled", "greedy", "constant"])
def test_output_is_plain_sampling_for_any_draft_and_k(sdo, kind, k):
    target, other = ToyModel(VOCAB, 1), ToyModel(VOCAB, 2)
    for seed in range(3):
        drafts = {
            "sampled": lambda here, offset, seed=seed: sdo.sample(
                target(here) + other(here) / 2,
                seed=seed,
                offset=offset,
                prev_tokens=torch.tensor(here),
                **PARAMETERS,
            ).item(),
            "greedy": lambda here, offset: int(target(here).argmax()),
            "constant": lambda here, offset: 3,
        }
        tokens, accepted = speculative(sdo, target, drafts[kind], [1, 2], seed, k)
        assert tokens == plain(sdo, target, [1, 2], seed)
        assert accepted > 0 or k == 0 or kind == "constant"


def test_a_row_of_the_batch_equals_sample_of_its_stream(sdo):
    """Row i of sequence b is sample(target[:, i], seed, offset + i) at row b."""
    target = cases.rows("flat", 6 * 3, 50).view(6, 3, 50)
    drawn = [sdo.sample(target[:, i], seed=SEED, offset=OFFSET + i) for i in range(3)]
    tokens = torch.stack(drawn[:2], 1)
    accept_len, out = sdo.verify(target, None, tokens, seed=SEED, offset=OFFSET, method="coupled")
    assert accept_len.tolist() == [2] * 6
    assert torch.equal(out, torch.stack(drawn, 1))
    tokens[:, 1] = (tokens[:, 1] + 1) % 50
    accept_len, out = sdo.verify(target, None, tokens, seed=SEED, offset=OFFSET, method="coupled")
    assert accept_len.tolist() == [1] * 6
    assert torch.equal(out[:, :2], torch.stack(drawn[:2], 1))


def test_draft_logits_are_not_read(sdo):
    target, draft, tokens = a_batch("normal", 4, 2, 60)
    without = verify(sdo, target, None, tokens, method="coupled")
    assert verify(sdo, target, draft, tokens, method="coupled") == without
    assert verify(sdo, target, draft * torch.nan, tokens, method="coupled") == without
