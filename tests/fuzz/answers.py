# SPDX-License-Identifier: Apache-2.0
"""What the public functions have to return for any arguments of fuzz.inputs, by the oracle."""

import torch
from oracle import oracle

from fuzz.inputs import PARAMETERS, meant

_FIELDS = {"repetition_penalty": "penalty"}


def _entry(value, row):
    if not torch.is_tensor(value):
        return value
    return value[row if len(value) > 1 else 0].item()


def filter_of(arguments, row):
    named = {
        _FIELDS.get(name, name): meant(name, _entry(arguments[name], row))
        for name in PARAMETERS
        if name in arguments
    }
    return oracle.Filter(**named)


def previous_of(arguments, row):
    ids = arguments.get("prev_tokens")
    if ids is None:
        return []
    return (ids if ids.dim() == 1 else ids[row]).tolist()


def place_of(arguments, row):
    seed, offset = arguments["seed"], arguments["offset"]
    seed_per_row = torch.is_tensor(seed) and len(seed) != 1
    stream = 0 if seed_per_row else row
    return oracle.Place(_entry(seed, row), _entry(offset, row) % 2**60, stream)


def filter_logits(logits, arguments):
    rows = [
        torch.from_numpy(
            oracle.filter_logits(row, filter_of(arguments, b), previous_of(arguments, b))
        )
        for b, row in enumerate(logits)
    ]
    return torch.stack([torch.empty(logits.shape[1:]), *rows])[1:]


def sample(logits, arguments):
    return [
        oracle.sample(
            row, filter_of(arguments, b), place_of(arguments, b), previous_of(arguments, b)
        )
        for b, row in enumerate(logits)
    ]


def verify(target, draft, tokens, arguments, coupled):
    """[(accept_len, out)] of each row."""
    answers = []
    for b, ids in enumerate(tokens.tolist()):
        filter, place = filter_of(arguments, b), place_of(arguments, b)
        previous = previous_of(arguments, b)
        if coupled:
            n, token = oracle.verify_coupled(target[b], ids, filter, place, previous)
        else:
            rows = None if draft is None else draft[b]
            n, token = oracle.verify(target[b], rows, ids, filter, place, previous)
        answers.append((n, [*ids[:n], token, *[-1] * (len(ids) - n)]))
    return answers


def is_valid(target, draft, tokens, previous=None, probabilities=False):
    """Whether validate=True lets these values pass."""
    vocab = target.shape[-1]
    for rows in (target, draft):
        if rows is None or not len(rows.view(-1)):
            continue
        rows = rows.detach().float()
        nothing = 0.0 if probabilities else -torch.inf
        if rows.isnan().any() or (rows == nothing).all(-1).any():
            return False
        if probabilities and (rows < 0).any():
            return False
    ids = [ids.reshape(-1) for ids in (tokens, previous) if ids is not None]
    return all(-1 <= token < vocab for token in torch.cat([torch.empty(0).long(), *ids]).tolist())
