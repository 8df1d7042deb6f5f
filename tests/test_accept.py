# SPDX-License-Identifier: Apache-2.0
"""accept: one sequence of probability rows, to the bit."""

import cases
import pytest
import torch
from cases import DTYPES, INF, LAYOUTS, NAN, VOCABS
from oracle import oracle


def probabilities(k, vocab, dtype=torch.float32, scale=1.0):
    """target [k+1, V], draft [k, V], tokens [k] that the draft likes."""
    logits = cases.rows("normal", 2 * k + 1, vocab)
    logits[k + 1 :] = logits[:k] + logits[k + 1 :] / 2
    rows = (logits.softmax(-1) * scale).to(dtype)
    tokens = rows[k + 1 :].float().pow(0.3).mul(torch.rand(k, vocab, generator=gen(1))).argmax(-1)
    return rows[: k + 1], rows[k + 1 :], tokens


def gen(seed):
    return torch.Generator().manual_seed(seed)


def check(sdo, target, draft, tokens, seed=7, **arguments):
    uniforms = torch.rand(len(tokens) + 1, dtype=torch.float64, generator=gen(seed))
    result = sdo.accept(target, draft, tokens, generator=gen(seed), **arguments)
    assert result == oracle.accept(target, draft, tokens.tolist(), uniforms.tolist(), **arguments)
    assert [type(value) for value in result] == [int, int]
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", VOCABS)
def test_rounds_are_the_oracles(sdo, vocab, dtype):
    for scale in (1.0, 4.0) if vocab < 5000 else (4.0,):
        target, draft, tokens = probabilities(3, vocab, dtype, scale)
        for seed in range(4):
            check(sdo, target, draft, tokens, seed)
            check(sdo, target, None, tokens, seed)
            check(sdo, target, draft, tokens, seed, normalized=True)
            check(sdo, target, None, tokens, seed, normalized=True)


@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-30, 1e-3, 1e3, 1e30, 3e38])
def test_unnormalised_rows_of_any_size_work(sdo, scale):
    target, draft, tokens = probabilities(2, 40)
    target, draft = target / target.max() * scale, draft / draft.max()
    for seed in range(8):
        check(sdo, target, draft, tokens, seed)
        check(sdo, draft[[0, 1, 0]], target[:2], tokens, seed)


@pytest.mark.parametrize("normalized", [False, True])
def test_entries_without_meaning_count_nothing(sdo, normalized):
    target, draft, tokens = probabilities(3, 30)
    target[:, ::3], draft[:, 1::3] = NAN, -1.0
    for seed in range(8):
        check(sdo, target, draft, tokens, seed, normalized=normalized)


def test_infinite_entries_share_the_row(sdo):
    target, draft, tokens = probabilities(2, 30)
    target[0, [3, 5]], draft[0, [3, 8]] = INF, INF
    tokens[0] = 3
    for seed in range(8):
        check(sdo, target, draft, tokens, seed)
        check(sdo, target, None, tokens, seed)


@pytest.mark.parametrize("normalized", [False, True])
def test_a_row_with_nothing_gives_minus_one(sdo, normalized):
    target, draft, tokens = probabilities(2, 30)
    for empty in (0.0, NAN, -1.0):
        target[0] = empty
        assert check(sdo, target, draft, tokens, normalized=normalized) == (0, -1)
        assert check(sdo, target, None, tokens, normalized=normalized) == (0, -1)


@pytest.mark.parametrize("normalized", [False, True])
def test_a_draft_row_with_nothing_ends_the_draft(sdo, normalized):
    target, draft, tokens = probabilities(2, 30)
    draft[0] = 0.0
    for seed in range(8):
        assert check(sdo, target, draft, tokens, seed, normalized=normalized)[0] == 0


@pytest.mark.parametrize("token", [-1, 30, 2**62, -(2**63)])
def test_ids_outside_the_vocabulary_end_the_draft(sdo, token):
    target, draft, tokens = probabilities(3, 30)
    tokens[1] = token
    for seed in range(8):
        assert check(sdo, target, draft, tokens, seed)[0] <= 1
        assert check(sdo, target, None, tokens, seed)[0] <= 1


@pytest.mark.parametrize("draft_vocab", [1, 29, 31, 600])
def test_the_draft_vocabulary_may_be_another(sdo, draft_vocab):
    target, _, tokens = probabilities(3, 30)
    _, draft, _ = probabilities(3, draft_vocab)
    for seed in range(8):
        check(sdo, target, draft, tokens, seed)
        check(sdo, target, draft, tokens, seed, normalized=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_does_not_matter(sdo, layout):
    for dtype in DTYPES:
        target, draft, tokens = probabilities(3, 999, dtype)
        for normalized in (False, True):
            a = check(sdo, target, draft, tokens, normalized=normalized)
            b = sdo.accept(
                layout(target), layout(draft), tokens, generator=gen(7), normalized=normalized
            )
            assert a == b


def test_counts_at_both_ends_are_right(sdo):
    sure = torch.eye(5)[[2, 0, 4, 1]]
    for tokens, result in [([2, 0, 4], (3, 1)), ([2, 0, 3], (2, 4)), ([1, 0, 4], (0, 2))]:
        assert check(sdo, sure, None, torch.tensor(tokens)) == result


def test_without_drafts_a_token_is_drawn(sdo):
    target, draft, tokens = probabilities(0, 30)
    check(sdo, target, draft, tokens)
    check(sdo, target, None, tokens)


def test_exactly_one_uniform_a_decision_is_taken_from_the_generator(sdo):
    target, draft, tokens = probabilities(3, 30)
    for first in (0, 1, -1):  # whether all is accepted or the draft ends at once
        tokens[0] = first
        used, counted = gen(3), gen(3)
        sdo.accept(target, draft, tokens, generator=used)
        torch.rand(4, dtype=torch.float64, generator=counted)
        assert torch.equal(used.get_state(), counted.get_state())


def test_no_generator_means_torchs_own(sdo):
    target, draft, tokens = probabilities(3, 30)
    torch.manual_seed(7)
    assert sdo.accept(target, draft, tokens) == check(sdo, target, draft, tokens, seed=7)


def test_the_largest_uniform_accepts_equal_laws(sdo):
    row = torch.tensor([[0.3, 0.7]])
    largest = torch.tensor([1 - 2.0**-53] * 2, dtype=torch.float64)
    result = sdo._accept_with_uniforms(row.expand(2, 2), row, torch.tensor([0]), largest)
    assert result == (1, 1)


def test_a_rejection_without_residual_draws_from_the_target(sdo):
    """Rows said to be normalised that are not: nothing of p is above q."""
    target, draft = torch.tensor([[0.25, 0.25, 0.0]] * 2), torch.tensor([[0.5, 0.5, 0.5]])
    for token, u, drawn in [(0, 0.0, 0), (0, 0.49, 0), (1, 0.5, 1), (2, 0.99, 1)]:
        uniforms = torch.tensor([0.9, u], dtype=torch.float64)
        arguments = (target, draft, torch.tensor([token]), uniforms)
        assert sdo._accept_with_uniforms(*arguments, normalized=True) == (0, drawn)


def test_inputs_are_not_written_to(sdo):
    target, draft, tokens = probabilities(3, 999)
    target[0, 3], draft[1, 5] = NAN, INF
    copies = [t.clone() for t in (target, draft, tokens)]
    check(sdo, target, draft, tokens)
    check(sdo, target, draft, tokens, normalized=True)
    for now, before in zip((target, draft, tokens), copies):
        torch.testing.assert_close(now, before, rtol=0, atol=0, equal_nan=True)


def test_the_reference_decides_alike(sdo):
    target, draft, tokens = probabilities(3, 30)
    for seed in range(200):
        uniforms = torch.rand(4, dtype=torch.float64, generator=gen(seed))
        for q in (draft, None):
            reference = sdo.reference.accept(target.double(), q, tokens, uniforms)
            assert reference == check(sdo, target, q, tokens, seed)


def test_uniforms_outside_their_range_count_as_its_ends(sdo):
    target, draft, tokens = probabilities(2, 99)
    given = torch.tensor([NAN, -1.0, 5.0], dtype=torch.float64)
    ends = torch.tensor([0.0, 0.0, 1 - 2.0**-53], dtype=torch.float64)
    assert sdo._accept_with_uniforms(target, draft, tokens, given) == sdo._accept_with_uniforms(
        target, draft, tokens, ends
    )


def test_a_token_that_only_the_draft_has_is_rejected_without_bias(sdo):
    """p = (1/2, 1/2), q = (1/2, 1/8, 3/8): after token 2 only token 1 is left to draw."""
    target, draft = torch.tensor([[0.5, 0.5]] * 2), torch.tensor([[0.5, 0.125, 0.375]])
    for u in (0.0, 0.3, 0.9):
        uniforms = torch.tensor([0.0, u], dtype=torch.float64)
        for normalized in (False, True):
            assert sdo._accept_with_uniforms(
                target, draft, torch.tensor([2]), uniforms, normalized
            ) == (0, 1)


# ---- Tensors for results ----


def a_batch(dtype=torch.float32):
    """3 sequences of 3 drafts, of which the last has an id that ends its draft."""
    parts = [probabilities(3, 40, dtype, scale) for scale in (1.0, 4.0, 0.5)]
    target, draft, tokens = (torch.stack(each) for each in zip(*parts))
    tokens[2, 1] = -1
    return target, draft, tokens


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("normalized", [False, True])
def test_a_batch_is_its_sequences(sdo, dtype, normalized):
    target, draft, tokens = a_batch(dtype)
    for seed in range(8):
        uniforms = torch.rand(3, 4, dtype=torch.float64, generator=gen(seed))
        for q in (draft, None):
            batch = sdo.accept(target, q, tokens, uniforms=uniforms, normalized=normalized)
            alone = [
                sdo._accept_with_uniforms(
                    target[b], None if q is None else q[b], tokens[b], uniforms[b], normalized
                )
                for b in range(3)
            ]
            assert [tuple(each) for each in torch.stack(batch, 1).tolist()] == alone
            assert [each.dtype for each in batch] == [torch.int64] * 2


def test_a_batch_draws_its_uniforms_from_the_generator_row_by_row(sdo):
    target, draft, tokens = a_batch()
    uniforms = torch.rand(3, 4, dtype=torch.float64, generator=gen(5))
    wanted = sdo.accept(target, draft, tokens, uniforms=uniforms)
    generator = gen(5)
    for a, b in zip(sdo.accept(target, draft, tokens, generator), wanted):
        assert torch.equal(a, b)
    expected = gen(5)
    torch.rand(12, dtype=torch.float64, generator=expected)
    assert torch.equal(generator.get_state(), expected.get_state())


def test_uniforms_give_tensors_without_dimensions_for_one_sequence(sdo):
    target, draft, tokens = probabilities(3, 40)
    uniforms = torch.rand(4, dtype=torch.float64, generator=gen(2))
    before = torch.get_rng_state()
    results = sdo.accept(target, draft, tokens, uniforms=uniforms)
    assert torch.equal(torch.get_rng_state(), before)
    assert [result.shape for result in results] == [()] * 2
    assert tuple(map(int, results)) == sdo.accept(target, draft, tokens, gen(2))


def test_a_batch_of_greedy_drafts_is_its_sequences(sdo):
    target, _, tokens = a_batch()
    tokens[0] = target[0, :3].argmax(-1)
    tokens[1, 0] = target[1, 0].argmax(-1)
    batch = sdo.verify_greedy(target, tokens)
    alone = [sdo.verify_greedy(target[b], tokens[b]) for b in range(3)]
    assert [tuple(each) for each in torch.stack(batch, 1).tolist()] == alone
    assert alone[0][0] == 3
    assert [type(value) for value in alone[0]] == [int, int]


def test_batches_of_nothing_work(sdo):
    target, draft, tokens = a_batch()
    for result in (
        sdo.accept(target[:0], draft[:0], tokens[:0]),
        sdo.verify_greedy(target[:0], tokens[:0]),
    ):
        assert [each.shape for each in result] == [(0,)] * 2
    length, token = sdo.accept(target[:, :1], draft[:, :0], tokens[:, :0])
    assert length.tolist() == [0, 0, 0]
    assert ((0 <= token) & (token < 40)).all()


def test_uniforms_and_generators_of_the_wrong_kind_are_refused(sdo):
    target, draft, tokens = a_batch()
    uniforms = torch.rand(3, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match="generator and uniforms are given, wanted one"):
        sdo.accept(target, draft, tokens, gen(1), uniforms=uniforms)
    with pytest.raises(TypeError, match="generator is 5, wanted a torch.Generator or None"):
        sdo.accept(target, draft, tokens, 5)
    with pytest.raises(TypeError, match="uniforms is a list, wanted a tensor"):
        sdo.accept(target, draft, tokens, uniforms=[0.5])
    for wrong in (uniforms.float(), uniforms[:, :3], uniforms[0], uniforms.T.contiguous().T):
        with pytest.raises(RuntimeError, match="accept: uniforms is .*, wanted"):
            sdo.accept(target, draft, tokens, uniforms=wrong)
    for wrong in (draft[:2], draft[:, :2], draft[0]):
        with pytest.raises(RuntimeError, match="accept: draft_probs is .*, wanted"):
            sdo.accept(target, wrong, tokens, uniforms=uniforms)
