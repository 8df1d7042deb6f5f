# SPDX-License-Identifier: Apache-2.0
"""Input families by name, layouts, and how an op's rows are compared with the oracle's."""

import math

import torch
from oracle import oracle

INF, NAN = math.inf, math.nan
VOCABS = [1, 2, 31, 511, 512, 513, 999, 1024, 4097, 50257]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

FAMILIES = {
    "normal": lambda n, g: 2 * torch.randn(n, generator=g),
    "flat": lambda n, g: 30 + 0.02 * torch.randn(n, generator=g),
    "peaked": lambda n, g: 8 * torch.randn(n, generator=g),
    "ties": lambda n, g: torch.randn(n, generator=g).mul(8).round() / 4,
    "constant": lambda n, g: torch.full((n,), -1.5),
    "ascending": lambda n, g: torch.linspace(-9, 9, n),
    "holes": lambda n, g: with_holes(3 * torch.randn(n, generator=g), g),
}

# What `sample` and `filter_logits` are called with.
FILTERS = {
    "off": {},
    "temperature": {"temperature": 0.7},
    "top_k": {"top_k": 50},
    "top_p": {"top_p": 0.95, "temperature": 1.3},
    "half": {"top_p": 0.5},
    "min_p": {"min_p": 0.05},
    "chain": {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02},
    "penalty": {"temperature": 0.9, "repetition_penalty": 1.3, "top_p": 0.8},
    "cold": {"temperature": 1e-3, "top_p": 0.9},
    "hot": {"temperature": 1e6, "top_p": 0.3, "min_p": 0.5},
    "greedy": {"temperature": 0.0},
}


def with_holes(row, generator):
    """NaN and -inf at a fifth of the places."""
    u = torch.rand(row.shape, generator=generator)
    return row.masked_fill(u < 0.1, NAN).masked_fill(u > 0.9, -INF)


def rows(family, count, vocab, dtype=torch.float32):
    g = torch.Generator().manual_seed(vocab + sum(map(ord, family)))
    drawn = [FAMILIES[family](vocab, g) for _ in range(count)]
    return torch.cat([torch.empty(0), *drawn]).view(count, vocab).to(dtype)


def history(count, length, vocab):
    """prev_tokens with repeats, padding and ids outside the vocabulary."""
    g = torch.Generator().manual_seed(length)
    ids = torch.randint(-1, vocab + 2, (count, length), generator=g)
    ids[:, length // 2 :] = ids[:, : length - length // 2]
    return ids


def with_history(arguments, count, vocab, length=30):
    """The arguments, with prev_tokens where they have a penalty."""
    if "repetition_penalty" in arguments:
        return {**arguments, "prev_tokens": history(count, length, vocab)}
    return arguments


def filter_of(arguments, row=0):
    """The oracle's parameters of one row for keyword arguments of an op."""

    def value(name, off):
        v = arguments.get(name, off)
        return v.expand(row + 1 if len(v) == 1 else len(v))[row].item() if torch.is_tensor(v) else v

    return oracle.Filter(
        value("temperature", 1.0),
        value("top_k", 0),
        value("top_p", 1.0),
        value("min_p", 0.0),
        value("repetition_penalty", 1.0),
    )


def previous_of(arguments, row=0):
    ids = arguments.get("prev_tokens")
    if ids is None:
        return []
    return ids.tolist() if ids.dim() == 1 else ids[row].tolist()


def oracle_filter(logits, **arguments):
    filtered = [
        torch.from_numpy(
            oracle.filter_logits(row, filter_of(arguments, b), previous_of(arguments, b))
        )
        for b, row in enumerate(logits)
    ]
    return torch.stack(filtered)


def oracle_sample(logits, seed, offset=0, **arguments):
    """Tokens of a scalar seed: row b draws from stream b."""
    places = [oracle.Place(seed, offset, b) for b in range(len(logits))]
    return [
        oracle.sample(row, filter_of(arguments, b), places[b], previous_of(arguments, b))
        for b, row in enumerate(logits)
    ]


def bits(x):
    """Floats as integers: -0 differs from 0, and nothing is close enough."""
    return x.contiguous().view(torch.int32)


def same_bits(a, b):
    return a.shape == b.shape and torch.equal(bits(a), bits(b))


# ---- Layouts: the same rows in other memory ----


def padded(x):
    """Rows 8 elements further apart than they are long; what lies between is NaN."""
    wide = torch.full((*x.shape[:-1], x.shape[-1] + 8), NAN, dtype=x.dtype)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def shifted(x):
    """Starting one element into an allocation."""
    memory = torch.full((x.numel() + 2,), NAN, dtype=x.dtype)
    memory[1:-1] = x.reshape(-1)
    return memory[1:-1].view(x.shape)


def reversed_batch(x):
    """The batch dimension interleaved with another tensor's."""
    memory = torch.full((x.shape[0], 2, *x.shape[1:]), NAN, dtype=x.dtype)
    memory[:, 1] = x
    return memory[:, 1]


LAYOUTS = [padded, shifted, reversed_batch]
