# SPDX-License-Identifier: Apache-2.0
"""Whatever the input, the ops give the oracle's bits: Hypothesis looks for an exception."""

import cases
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import oracle

ANY = settings(derandomize=True, deadline=None, database=None, max_examples=300)

# Few values and many: ties at every cut, signed zeros, subnormals, infinities, NaN, whole range.
LOGIT = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, -3.4e38, cases.INF, -cases.INF, cases.NAN]
    ),
    st.integers(-8, 8).map(lambda n: n / 4),
    st.floats(-30, 30, width=32),
    st.floats(width=32),
)
ROW = st.one_of(
    st.lists(LOGIT, min_size=1, max_size=12),
    st.tuples(st.lists(LOGIT, min_size=1, max_size=4), st.integers(1, 300)).map(
        lambda pair: pair[0] * pair[1]
    ),
)
TEMPERATURE = st.one_of(
    st.floats(0.25, 4, width=32),
    st.floats(0, 3.4028234663852886e38, width=32),
    st.sampled_from([1.0, 1e-45, 1e-38, 1e-6, 1e6, 0.0, -1.0]),
)
SHARE = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0, 1 - 2.0**-53, 5e-324, 2.0**-44]))
FILTER = st.fixed_dictionaries(
    {"temperature": TEMPERATURE},
    optional={
        "top_k": st.integers(-1, 20),
        "top_p": SHARE,
        "min_p": SHARE,
        "repetition_penalty": st.one_of(
            st.floats(0.5, 2, width=32), st.floats(1.401298464324817e-45, 2.0**127, width=32)
        ),
    },
)
TOKENS = st.lists(st.integers(-2, 14), max_size=6)
WORD = st.one_of(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


def signed(word):
    return word - 2**64 if word >= 2**63 else word


@ANY
@given(row=ROW, arguments=FILTER, previous=TOKENS, seed=WORD)
def test_any_row_is_filtered_and_drawn_as_the_oracle_does(sdo, row, arguments, previous, seed):
    logits = torch.tensor([row])
    arguments["prev_tokens"] = torch.tensor([previous], dtype=torch.int64)
    expected = cases.oracle_filter(logits, **arguments)
    assert cases.same_bits(sdo.filter_logits(logits, **arguments), expected)
    drawn = cases.oracle_sample(logits, seed, 5, **arguments)
    assert sdo.sample(logits, seed=seed, offset=5, **arguments).tolist() == drawn


@ANY
@given(data=st.data(), k=st.integers(0, 3), deterministic=st.booleans(), temperature=TEMPERATURE)
def test_any_round_is_verified_as_the_oracle_does(sdo, data, k, deterministic, temperature):
    vocab, draft_vocab = (data.draw(st.integers(1, 6)) for _ in range(2))

    def rows(count, width):
        row = st.lists(LOGIT, min_size=width, max_size=width)
        drawn = data.draw(st.lists(row, min_size=count, max_size=count))
        return torch.tensor(drawn, dtype=torch.float32).view(count, width)

    target = rows(k + 1, vocab)
    draft = None if deterministic else rows(k, draft_vocab)
    tokens = data.draw(st.lists(st.integers(-1, vocab), min_size=k, max_size=k))
    words = data.draw(st.lists(WORD, min_size=k + 1, max_size=k + 1))
    n, token = oracle.verify(target, draft, tokens, oracle.Filter(temperature), words=words)
    accept_len, out = sdo._verify_with_words(
        target[None],
        None if deterministic else draft[None],
        torch.tensor([tokens], dtype=torch.int64).view(1, k),
        torch.tensor([[signed(word) for word in words]]),
        temperature=temperature,
    )
    assert (accept_len.item(), out[0].tolist()) == (n, [*tokens[:n], token, *[-1] * (k - n)])


PROBABILITY = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 1.0, -1.0, cases.INF, cases.NAN]),
    st.floats(0, 1, width=32),
    st.floats(width=32),
    st.integers(0, 9).map(lambda n: n * 2.0**-149),
)


@pytest.mark.parametrize("normalized", [False, True])
@ANY
@given(data=st.data(), k=st.integers(0, 3), deterministic=st.booleans())
def test_any_sequence_is_accepted_as_the_oracle_does(sdo, normalized, data, k, deterministic):
    vocab, draft_vocab = (data.draw(st.integers(1, 6)) for _ in range(2))

    def rows(count, width):
        row = st.lists(PROBABILITY, min_size=width, max_size=width)
        drawn = data.draw(st.lists(row, min_size=count, max_size=count))
        return torch.tensor(drawn, dtype=torch.float32).view(count, width)

    target = rows(k + 1, vocab)
    draft = None if deterministic else rows(k, draft_vocab)
    tokens = data.draw(st.lists(st.integers(-1, vocab), min_size=k, max_size=k))
    uniform = st.floats(0, 1, exclude_max=True)
    uniforms = data.draw(st.lists(uniform, min_size=k + 1, max_size=k + 1))
    result = sdo._accept_with_uniforms(
        target,
        draft,
        torch.tensor(tokens, dtype=torch.int64),
        torch.tensor(uniforms, dtype=torch.float64),
        normalized=normalized,
    )
    assert result == oracle.accept(target, draft, tokens, uniforms, normalized)
