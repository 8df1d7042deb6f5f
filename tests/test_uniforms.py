# SPDX-License-Identifier: Apache-2.0
"""Batches of accept and verify_greedy: a row is the single call with its own uniforms."""

import cases
import pytest
import torch

ROWS, K = 6, 3


def a_batch(vocab, dtype=torch.float32, draft_vocab=None):
    """target [B, K+1, V], draft [B, K, Vd], tokens [B, K] with early ends, uniforms [B, K+1]."""
    g = torch.Generator().manual_seed(vocab)
    logits = 2 * torch.randn(ROWS, K + 1, vocab, generator=g)
    draft = logits[:, :K] + torch.randn(ROWS, K, vocab, generator=g)
    draft = draft[..., : draft_vocab or vocab].softmax(-1)
    tokens = draft.reshape(ROWS * K, -1).multinomial(1, generator=g).view(ROWS, K)
    tokens[1, 2], tokens[2, 0], tokens[3, 1] = -1, vocab, -1
    uniforms = torch.rand(ROWS, K + 1, dtype=torch.float64, generator=g)
    return (3 * logits.softmax(-1)).to(dtype), draft.to(dtype), tokens, uniforms


def rows_of(result):
    return [tuple(row) for row in torch.stack(result, 1).tolist()]


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("vocab", [2, 40, 513, 4097])
def test_the_rows_of_a_batch_are_single_calls(sdo, vocab, dtype):
    for draft_vocab in (vocab, max(1, vocab - 1)):
        target, draft, tokens, uniforms = a_batch(vocab, dtype, draft_vocab)
        for q in (draft, None):
            for normalized in (False, True):
                batch = sdo.accept(target, q, tokens, uniforms=uniforms, normalized=normalized)
                alone = [
                    sdo.accept(
                        target[b],
                        None if q is None else q[b],
                        tokens[b],
                        uniforms=uniforms[b],
                        normalized=normalized,
                    )
                    for b in range(ROWS)
                ]
                assert rows_of(batch) == [tuple(map(int, each)) for each in alone]
        batch = sdo.verify_greedy(target, tokens)
        assert rows_of(batch) == [sdo.verify_greedy(target[b], tokens[b]) for b in range(ROWS)]


def test_a_row_does_not_depend_on_its_place_in_the_batch(sdo):
    target, draft, tokens, uniforms = a_batch(513)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    batch = sdo.accept(target, draft, tokens, uniforms=uniforms)
    moved = sdo.accept(target[order], draft[order], tokens[order], uniforms=uniforms[order])
    assert all(torch.equal(a[order], b) for a, b in zip(batch, moved))


def test_other_uniforms_are_another_batch(sdo):
    """What the comparisons see, if rows shared the uniforms of the first."""
    target, draft, tokens, uniforms = a_batch(4097)
    batch = sdo.accept(target, draft, tokens, uniforms=uniforms)
    shared = sdo.accept(target, draft, tokens, uniforms=uniforms[:1].expand(ROWS, -1).contiguous())
    assert rows_of(batch) != rows_of(shared)


def test_uniforms_of_the_wrong_kind_are_refused_and_nothing_is_drawn(sdo):
    target, draft, tokens, uniforms = a_batch(40)
    state = torch.get_rng_state()
    for wrong, text in [
        (uniforms.float(), r"float32\[6, 4\].*wanted float64 of shape \[6, 4\]"),
        (uniforms[:, :K], r"float64\[6, 3\].*wanted float64 of shape \[6, 4\]"),
        (uniforms[:5], r"float64\[5, 4\].*wanted float64 of shape \[6, 4\]"),
        (uniforms[0], r"float64\[4\].*wanted float64 of shape \[6, 4\]"),
        (uniforms[:, ::2].repeat(1, 2).T.contiguous().T, "not contiguous, wanted contiguous"),
    ]:
        with pytest.raises(RuntimeError, match=f"accept: uniforms is {text}"):
            sdo.accept(target, draft, tokens, uniforms=wrong)
    with pytest.raises(RuntimeError, match=r"accept: uniforms is .*wanted float64 of shape \[4\]"):
        sdo.accept(target[0], draft[0], tokens[0], uniforms=uniforms)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("value", [-1e-300, 1.0, 1.5, float("nan")])
def test_validate_names_the_uniform_that_is_out_of_range(sdo, value):
    target, draft, tokens, uniforms = a_batch(40)
    tokens = tokens.clamp(-1, 39)
    sdo.accept(target, draft, tokens, uniforms=uniforms, validate=True)
    uniforms[4, 2] = value
    with pytest.raises(ValueError, match=r"uniforms is outside \[0, 1\) at row 4, column 2"):
        sdo.accept(target, draft, tokens, uniforms=uniforms, validate=True)
    with pytest.raises(ValueError, match=r"uniforms is outside \[0, 1\) at column 2"):
        sdo.accept(target[4], draft[4], tokens[4], uniforms=uniforms[4], validate=True)
