# SPDX-License-Identifier: Apache-2.0
"""Inputs of any kind, as Hypothesis strategies: the values of rows, how rows lie in memory, tokens,
and parameters as one number or as one a row.

A row is drawn as bytes, each the number of a value in a table, or four of them a float's bits: that
is quick, and shrinks. Strategies are made once, which takes longer than to draw from them.
"""

from functools import lru_cache

import cases
import numpy as np
import torch
from hypothesis import strategies as st

INF, NAN = cases.INF, cases.NAN
MAX = float(torch.finfo(torch.float32).max)
TINY = 2.0**-149  # the smallest float

SPECIAL = [0.0, -0.0, TINY, -TINY, 2.0**-127, 2.0**-126, MAX, -MAX, MAX / 1.3, -MAX / 1.3]
SPECIAL += [2.0**-20, 2.0**20, 88.7, -88.8, -103.9, 103.9, 1e-5, 65504.0, -65519.0, 65520.0]
SPECIAL += [INF, -INF, -INF, NAN, NAN, -NAN]
_random = np.random.default_rng(1)


def _table(*parts):
    """256 values, of which the last part fills what the others leave."""
    values = np.concatenate([np.asarray(part, np.float32) for part in parts])
    return values[:256]


LOGITS, PROBABILITIES = "logits", "probabilities"
TABLES = {
    LOGITS: _table(np.arange(-16, 17) / 4, SPECIAL, 3 * _random.standard_normal(256)),
    PROBABILITIES: _table(
        np.arange(17) / 16,
        [-1.0, -0.0, TINY, 9 * TINY, 2.0**-126, 1e-30, 1e-9, 1 - 2.0**-24, 1 + 2.0**-23, 3.0, MAX],
        [INF, NAN, -INF, 2.0**-20, 2.0**-43, 2.0**-44],
        _random.random(128) ** 4,
        [0.0] * 256,
    ),
}

made_once = lru_cache(None)
BOOLEAN = st.booleans()
OF_4, OF_8, BYTE = st.integers(0, 3), st.integers(0, 7), st.integers(0, 255)


@made_once
def listed(strategy, count):
    """Lists of this length."""
    return st.lists(strategy, min_size=count, max_size=count)


@made_once
def octets(count):
    return st.binary(min_size=count, max_size=count)


@made_once
@st.composite
def values(draw, table, count):
    """float32 [count]: values of the table, at times any bits at all."""
    if draw(OF_8) == 7:
        return np.frombuffer(draw(octets(4 * count)), np.float32)
    return TABLES[table][np.frombuffer(draw(octets(count)), np.uint8)]


DTYPE = st.sampled_from(cases.DTYPES)


@made_once
@st.composite
def rows(draw, table, leading, vocab):
    """A tensor [*leading, vocab] of any of the three dtypes. Long rows repeat a few values."""
    count = int(np.prod(leading, dtype=int))
    width = min(vocab, 24)
    drawn = draw(values(table, count * width)).reshape(count, width)
    if vocab > width:
        places = np.random.default_rng(draw(BYTE)).integers(0, width, (count, vocab))
        drawn = np.take_along_axis(drawn, places, 1)
    x = torch.tensor(drawn.copy()).view(*leading, vocab)
    return x.to(draw(DTYPE))


VOCAB = st.one_of(
    st.integers(1, 9), st.integers(1, 24), st.sampled_from([1, 31, 33, 511, 512, 513, 1025])
)


# ---- The same rows in other memory ----


def every_other(x):
    """Every other position of a longer tensor."""
    memory = torch.full((*x.shape[:-2], 2 * x.shape[-2], x.shape[-1]), NAN, dtype=x.dtype)
    memory[..., ::2, :] = x
    return memory[..., ::2, :]


def positions_first(x):
    """Batch and positions swapped in memory."""
    return x.transpose(0, -2).contiguous().transpose(0, -2)


def negated(x):
    """A view that torch negates when it is read."""
    return torch._neg_view(-x)


def of_a_graph(x):
    """A tensor that wants a gradient."""
    return x.clone().requires_grad_()


LAYOUTS = {
    "as it is": lambda x: x,
    "padded": cases.padded,
    "shifted": cases.shifted,
    "reversed_batch": cases.reversed_batch,
    "every_other": every_other,
    "positions_first": positions_first,
    "negated": negated,
    "of_a_graph": of_a_graph,
}
LAYOUT = st.sampled_from(sorted(LAYOUTS))


def laid_out(x, layout):
    return LAYOUTS[layout](x)


# ---- Tokens and words ----

FAR = [-(2**63), -(2**31) - 1, 2**31, 2**32 + 1, 2**62, 2**63 - 1]


@made_once
@st.composite
def token_tensor(draw, shape, vocab):
    """int64 of this shape, of any strides: mostly ids of the vocabulary, and those beside it."""
    drawn = draw(octets(int(np.prod(shape, dtype=int)) + 1))
    far = 256 - len(FAR)
    ids = [FAR[byte - far] if byte >= far else byte % (vocab + 4) - 2 for byte in drawn[1:]]
    memory = torch.tensor(ids, dtype=torch.int64).view(shape)
    if drawn[0] % 2:
        memory = torch.stack([memory, torch.full(shape, 2**40)], -1)[..., 0]
    return memory


@made_once
@st.composite
def words(draw, count):
    """`count` words of 64 bits."""
    drawn = draw(octets(9 * count))
    ends = [0, 1, 2**63, 2**64 - 1]
    return [
        ends[drawn[i] % 4] if drawn[i] < 64 else int.from_bytes(drawn[i + 1 : i + 9], "big")
        for i in range(0, 9 * count, 9)
    ]


SEED = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 2**64, -(2**70), 2**63]))
OFFSET = st.one_of(st.integers(0, 99), st.sampled_from([2**32 - 1, 2**32, 2**60 - 1]))


def signed(word):
    """The int64 of these 64 bits."""
    return (word + 2**63) % 2**64 - 2**63


# ---- Filters ----

TEMPERATURE = st.one_of(
    st.sampled_from([1.0, 0.7, 1.3, 0.0, -1.0, TINY, 1e-38, 1e-6, 1e6, MAX]),
    st.floats(0.25, 4, width=32),
    st.floats(0, MAX, width=32),
)
SHARE = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 0.5, 1.0, 1.5, -1.0, 1 - 2.0**-53, 5e-324, 2.0**-44, 2.0**-43]),
)
TOP_K = st.one_of(st.integers(-1, 20), st.sampled_from([511, 512, 513, 2**40, -(2**40)]))
PENALTY = st.one_of(
    st.sampled_from([1.0, 1.3, 0.5, TINY, MAX]),
    st.floats(0.5, 2, width=32),
    st.floats(TINY, MAX, width=32),
)
# What a tensor may hold and a number may not: it counts as off.
PARAMETERS = {
    "temperature": (TEMPERATURE, [torch.float32], [NAN, INF]),
    "top_k": (TOP_K, [torch.int64], [-(2**63), 2**63 - 1]),
    "top_p": (SHARE, [torch.float32, torch.float64], [NAN, INF, -INF]),
    "min_p": (SHARE, [torch.float32, torch.float64], [NAN, INF, -INF]),
    "repetition_penalty": (PENALTY, [torch.float32], [NAN, INF, 0.0, -1.0]),
}
ENTRIES = {
    name: st.one_of(strategy, strategy, st.sampled_from(without_meaning))
    for name, (strategy, _, without_meaning) in PARAMETERS.items()
}


@made_once
@st.composite
def parameter(draw, name, batch):
    """A number, or a tensor with one or one a row."""
    strategy, dtypes, _ = PARAMETERS[name]
    kind = draw(OF_4)
    if kind < 2:
        return draw(strategy)
    count = 1 if kind == 2 else batch
    entries = draw(listed(ENTRIES[name], count))
    tensor = torch.tensor(entries, dtype=dtypes[draw(BYTE) % len(dtypes)])
    if draw(BOOLEAN):
        tensor = tensor.repeat_interleave(3)[::3]
    return tensor


@made_once
@st.composite
def filters(draw, batch, vocab):
    """Keyword arguments of an op."""
    given = draw(BYTE)
    arguments = {
        name: draw(parameter(name, batch))
        for bit, name in enumerate(sorted(PARAMETERS))
        if given >> bit & 1
    }
    if draw(BOOLEAN):
        length = draw(OF_8)
        shape = (length,) if draw(BOOLEAN) else (batch, length)
        arguments["prev_tokens"] = draw(token_tensor(shape, vocab))
    return arguments


@made_once
@st.composite
def noise(draw, batch):
    """seed and offset, each a number or a tensor."""
    arguments, kinds = {}, draw(BYTE)
    for name, strategy, kind in (("seed", SEED, kinds % 4), ("offset", OFFSET, kinds // 4 % 4)):
        if kind < 2:
            arguments[name] = draw(strategy)
        else:
            entries = [signed(word) for word in draw(words(1 if kind == 2 else batch))]
            arguments[name] = torch.tensor(entries, dtype=torch.int64)
    return arguments


def meant(name, value):
    """What a parameter's entry counts as."""
    if name in ("temperature", "repetition_penalty"):
        usable = value <= MAX and (name == "temperature" or value > 0)
        return value if usable else 1.0
    if name == "top_p":
        return value if value < 1 else 1.0
    if name == "min_p":
        return value if value > 0 else 0.0
    return value
