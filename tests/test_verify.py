# SPDX-License-Identifier: Apache-2.0
"""verify and verify_greedy: accepted lengths and emitted tokens, to the bit."""

import cases
import pytest
import torch
from cases import DTYPES, FAMILIES, FILTERS, INF, LAYOUTS, NAN, VOCABS, with_history
from oracle import oracle

SEED, OFFSET = -77, 2**40 + 3


def a_batch(family, count, k, vocab, dtype=torch.float32, draft_vocab=None):
    """Target and draft logits, alike enough to accept often, and tokens the draft likes."""
    draft_vocab = draft_vocab or vocab
    target = cases.rows(family, count * (k + 1), vocab).view(count, k + 1, vocab)
    noise = cases.rows("normal", count * k, draft_vocab).view(count, k, draft_vocab)
    draft = noise / 2
    shared = min(vocab, draft_vocab)
    draft[..., :shared] += target[:, :k, :shared]
    tokens = draft.nan_to_num(-INF, INF).add(noise.flip(-1)).argmax(-1) if k else None
    tokens = torch.empty(count, 0, dtype=torch.int64) if tokens is None else tokens
    return target.to(dtype), draft.to(dtype), tokens


def expected(target, draft, tokens, seed, offset=0, **arguments):
    """accept_len, out of the oracle; a scalar seed."""
    lengths, rows = [], []
    for b in range(len(target)):
        n, token = oracle.verify(
            target[b],
            None if draft is None else draft[b],
            tokens[b].tolist(),
            cases.filter_of(arguments, b),
            oracle.Place(seed, offset, b),
            cases.previous_of(arguments, b),
        )
        lengths.append(n)
        rows.append(emitted(tokens[b], n, token))
    return lengths, rows


def emitted(tokens, n, token):
    return [*tokens[:n].tolist(), token, *[-1] * (len(tokens) - n)]


def verify(sdo, target, draft, tokens, **arguments):
    accept_len, out = sdo.verify(
        target, draft, tokens, **{"seed": SEED, "offset": OFFSET, **arguments}
    )
    return accept_len.tolist(), out.tolist()


def check(sdo, target, draft, tokens, **arguments):
    given = {"seed": SEED, "offset": OFFSET, **arguments}
    assert verify(sdo, target, draft, tokens, **given) == expected(target, draft, tokens, **given)


# ---- The token rule, to the bit ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", [v for v in VOCABS if v < 5000])
def test_rounds_are_the_oracles(sdo, vocab, dtype):
    for family in FAMILIES:
        target, draft, tokens = a_batch(family, 3, 3, vocab, dtype)
        check(sdo, target, draft, tokens)
        check(sdo, target, None, tokens)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("vocab", [4, 513, 2000])
def test_filters_apply_to_both_models(sdo, vocab, name):
    for family in ("normal", "ties", "holes"):
        target, draft, tokens = a_batch(family, 4, 3, vocab)
        arguments = with_history(FILTERS[name], 4, vocab)
        check(sdo, target, draft, tokens, **arguments)
        check(sdo, target, None, tokens, **arguments)


def test_large_rows_are_the_oracles(sdo):
    for family, arguments in [("normal", {}), ("flat", {}), ("holes", {"top_k": 50})]:
        check(sdo, *a_batch(family, 2, 2, 50257), **arguments)


@pytest.mark.parametrize("draft_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_target_and_draft_may_differ_in_dtype(sdo, dtype, draft_dtype):
    target, draft, tokens = a_batch("normal", 4, 2, 600, dtype)
    check(sdo, target, draft.to(draft_dtype), tokens)


@pytest.mark.parametrize("draft_vocab", [1, 5, 511, 600, 601, 700])
@pytest.mark.parametrize("name", ["off", "top_k", "top_p", "penalty"])
def test_the_draft_vocabulary_may_be_another(sdo, draft_vocab, name):
    target, draft, tokens = a_batch("normal", 6, 2, 600, draft_vocab=draft_vocab)
    tokens[0, 0], tokens[1, 1] = 599, 650
    check(sdo, target, draft, tokens, **with_history(FILTERS[name], 6, 600))


@pytest.mark.parametrize("name", ["off", "chain", "greedy"])
def test_ragged_drafts_end_where_they_say(sdo, name):
    target, draft, tokens = a_batch("normal", 4, 4, 50)
    for b in range(4):
        tokens[b, b] = [-1, 50, -(2**63), 2**62][b]
    check(sdo, target, draft, tokens, **FILTERS[name])
    check(sdo, target, None, tokens, **FILTERS[name])
    accept_len, _ = verify(sdo, target, None, tokens, **FILTERS[name])
    assert all(n <= b for b, n in enumerate(accept_len))


def test_a_ragged_row_behaves_as_if_k_were_smaller(sdo):
    target, draft, tokens = a_batch("normal", 64, 3, 20)
    tokens[:, 2] = -1
    accept_len, out = verify(sdo, target, draft, tokens)
    shorter = verify(sdo, target[:, :3], draft[:, :2], tokens[:, :2])
    assert (accept_len, [row[:3] for row in out]) == shorter


@pytest.mark.parametrize("method", ["token", "coupled"])
def test_each_position_sees_the_drafts_before_it(sdo, method):
    """A penalty is applied for each accepted token, not once a round."""
    target = torch.tensor([4.0, 3.9, 3.8, 3.7]).expand(1, 4, 4)
    for temperature in (0.0, 1e-3):
        arguments = {"repetition_penalty": 2.0, "temperature": temperature, "method": method}
        for drafted, result in [
            ([0, 1, 2], ([3], [[0, 1, 2, 3]])),
            ([0, 0, 0], ([1], [[0, 1, -1, -1]])),
            ([1, 0, 0], ([0], [[0, -1, -1, -1]])),
        ]:
            tokens = torch.tensor([drafted])
            assert verify(sdo, target, None, tokens, **arguments) == result
            seen = torch.tensor([[0]])
            _, out = verify(sdo, target, None, tokens, **arguments, prev_tokens=seen)
            assert out[0][0] == 1


def test_the_draft_is_penalised_like_the_target(sdo):
    target, draft, _ = a_batch("normal", 40, 3, 6)
    tokens = torch.arange(40)[:, None].expand(40, 3) % 6
    check(sdo, target, draft, tokens, repetition_penalty=3.0)
    check(sdo, target, None, tokens, repetition_penalty=3.0)


def test_each_row_has_its_own_parameters(sdo):
    target, draft, tokens = a_batch("normal", 5, 3, 700)
    check(
        sdo,
        target,
        draft,
        tokens,
        temperature=torch.tensor([0.0, 0.7, 1.0, 2.0, -1.0]),
        top_k=torch.tensor([0, 5, 700, 50, 3]),
        top_p=torch.tensor([0.9, 1.0, 0.8, 0.0, 0.1]),
        min_p=torch.tensor([0.0, 0.0, 0.1, 0.2, 0.9]),
        repetition_penalty=torch.tensor([1.0, 1.3, 1.0, 0.7, 2.0]),
        prev_tokens=cases.history(5, 20, 700),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_does_not_matter(sdo, layout):
    for dtype in DTYPES:
        target, draft, tokens = a_batch("holes", 3, 2, 999, dtype)
        plain = verify(sdo, target, draft, tokens)
        assert verify(sdo, layout(target), layout(draft), layout_of_tokens(tokens)) == plain
    for k in (1, 3):
        row = cases.rows("normal", 1, 700)
        target, draft = row.expand(4, k + 1, 700), row.expand(4, k, 700)
        tokens = torch.full((1, 1), 3).expand(4, k)
        same = verify(sdo, target.contiguous(), draft.contiguous(), tokens.contiguous())
        assert verify(sdo, target, draft, tokens) == same


def layout_of_tokens(tokens):
    memory = torch.full((tokens.shape[0], tokens.shape[1] + 3), -9)
    memory[:, 1:-2] = tokens
    return memory[:, 1:-2]


def test_a_row_with_its_own_seed_does_not_depend_on_its_place(sdo):
    target, draft, tokens = a_batch("normal", 12, 2, 300)
    seeds, offsets = torch.arange(12) * 7919, torch.arange(12) * 3
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    plain = sdo.verify(target, draft, tokens, seed=seeds, offset=offsets)
    moved = sdo.verify(
        target[order], draft[order], tokens[order], seed=seeds[order], offset=offsets[order]
    )
    for a, b in zip(plain, moved):
        assert torch.equal(a[order], b)
    place = oracle.Place(7919 * 5, 15, 0)
    n, token = oracle.verify(target[5], draft[5], tokens[5].tolist(), oracle.Filter(), place)
    assert plain[1][5].tolist() == emitted(tokens[5], n, token)


def test_no_seed_takes_one_from_torch(sdo):
    target, draft, tokens = a_batch("normal", 32, 2, 300)
    torch.manual_seed(3)
    first, second = [sdo.verify(target, draft, tokens)[1] for _ in range(2)]
    torch.manual_seed(3)
    assert torch.equal(sdo.verify(target, draft, tokens)[1], first)
    assert not torch.equal(first, second)


# ---- PITFALLS: verification ----


def one_round(sdo, p, q, token, accept_word, draw_word):
    """p and q as probabilities; words as parts of 2^64."""
    words = [min(int(w * 2**64), 2**64 - 1) for w in (accept_word, draw_word)]
    accept_len, out = sdo._verify_with_words(
        torch.tensor(p).log().expand(1, 2, -1),
        torch.tensor(q).log().expand(1, 1, -1),
        torch.tensor([[token]]),
        torch.tensor([[w - 2**64 if w >= 2**63 else w for w in words]]),
    )
    return accept_len.item(), out[0, accept_len.item()].item()


def test_an_impossible_token_is_rejected_at_the_smallest_u(sdo):
    assert one_round(sdo, [0.0, 1.0], [0.5, 0.5], 0, 0.0, 0.0) == (0, 1)


def test_a_token_that_the_draft_excludes_ends_it(sdo):
    p, q = [0.5, 0.25, 0.25], [0.0, 0.5, 0.5]
    for draw_word, token in [(0.0, 0), (0.49, 0), (0.51, 1), (0.99, 2)]:
        assert one_round(sdo, p, q, 0, 0.0, draw_word) == (0, token)


def test_equal_laws_accept_at_the_largest_u(sdo):
    assert one_round(sdo, [0.3, 0.7], [0.3, 0.7], 0, 1.0, 0.0) == (1, 0)


def test_the_residual_subtracts_all_of_q_and_by_id(sdo):
    p, q = [0.5, 0.3, 0.2, 0.0], [0.0, 0.2, 0.3, 0.5]
    # The residual is (5, 1, 0, 0) / 6.
    for draw_word, token in [(0.0, 0), (0.83, 0), (0.84, 1), (1.0, 1)]:
        assert one_round(sdo, p, q, 3, 0.0, draw_word) == (0, token)


@pytest.mark.parametrize("name", FILTERS)
def test_empty_rows_give_minus_one(sdo, name):
    target, draft, tokens = a_batch("normal", 3, 2, 40)
    target[0, 0], target[1, 1], target[2, 2] = -INF, NAN, -INF
    draft[1, 0] = NAN
    check(sdo, target, draft, tokens, **FILTERS[name])
    accept_len, out = verify(sdo, target, None, tokens, **FILTERS[name])
    assert (accept_len[0], out[0]) == (0, [-1, -1, -1])


def test_infinite_logits_share_a_row(sdo):
    target, draft, tokens = a_batch("normal", 3, 2, 40)
    target[:, :, [3, 7]] = INF
    draft[1, :, [3, 9]] = INF
    tokens[:] = torch.tensor([3, 7])
    check(sdo, target, draft, tokens)
    check(sdo, target, None, tokens)


def test_no_drafts_and_empty_batches_work(sdo):
    target, draft, tokens = a_batch("normal", 4, 0, 30)
    check(sdo, target, draft, tokens)
    check(sdo, target, None, tokens)
    accept_len, out = sdo.verify(
        torch.empty(0, 3, 9), None, torch.empty(0, 2, dtype=torch.int64), seed=1
    )
    assert accept_len.shape == (0,) and out.shape == (0, 3)


def test_a_single_token_vocabulary_accepts_everything(sdo):
    target, draft, _ = a_batch("normal", 3, 2, 1)
    tokens = torch.zeros(3, 2, dtype=torch.int64)
    assert verify(sdo, target, draft, tokens) == ([2] * 3, [[0, 0, 0]] * 3)


def test_counts_at_both_ends_are_right(sdo):
    """All accepted, last rejected, first rejected."""
    sure = torch.full((1, 4, 5), -INF)
    for i, t in enumerate([2, 0, 4, 1]):
        sure[0, i, t] = 0.0
    for tokens, n, out in [
        ([2, 0, 4], 3, [2, 0, 4, 1]),
        ([2, 0, 3], 2, [2, 0, 4, -1]),
        ([1, 0, 4], 0, [2, -1, -1, -1]),
    ]:
        for temperature in (0.0, 1.0):
            tokens = torch.as_tensor(tokens).view(1, 3)
            result = verify(sdo, sure, None, tokens, temperature=temperature)
            assert result == ([n], [out])


def test_greedy_ignores_the_draft_logits(sdo):
    target, draft, tokens = a_batch("ties", 8, 3, 30)
    tokens[::2] = target[::2, :3].argmax(-1)
    result = verify(sdo, target, draft, tokens, temperature=0.0)
    assert result == verify(sdo, target, None, tokens, temperature=0.0)
    assert result == verify(sdo, target, torch.full_like(draft, NAN), tokens, temperature=0.0)
    assert result[0][::2] == [3] * 4


def test_inputs_are_not_written_to(sdo):
    target, draft, tokens = a_batch("holes", 3, 2, 999)
    previous = cases.history(3, 9, 999)
    copies = [t.clone() for t in (target, draft, tokens, previous)]
    for method in ("token", "coupled"):
        for arguments in FILTERS.values():
            given = {"repetition_penalty": 1.5, **arguments, "prev_tokens": previous}
            verify(sdo, target, draft, tokens, method=method, **given)
    for now, before in zip((target, draft, tokens, previous), copies):
        torch.testing.assert_close(now, before, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["off", "chain", "penalty", "greedy"])
def test_the_reference_decides_alike(sdo, name):
    target, draft, tokens = a_batch("normal", 24, 3, 50)
    tokens[0, 1] = -1
    g = torch.Generator().manual_seed(5)
    uniforms = torch.rand(24, 4, dtype=torch.float64, generator=g)
    arguments = dict(FILTERS[name])
    rows = zip(target, draft, tokens.tolist(), (uniforms * 2**53).long().tolist())
    exact = [
        oracle.verify(p, q, t, cases.filter_of(arguments), words=[w << 11 for w in u])
        for p, q, t, u in rows
    ]
    accept_len, out = sdo.reference.verify(target, draft, tokens, uniforms, **arguments)
    last = out.gather(1, accept_len[:, None])[:, 0]
    assert list(zip(accept_len.tolist(), last.tolist())) == exact
    assert out.shape == (24, 4)


# ---- verify_greedy ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", VOCABS)
def test_greedy_rounds_are_the_oracles(sdo, vocab, dtype):
    for family in FAMILIES:
        rows = cases.rows(family, 4, vocab, dtype)
        best = rows.nan_to_num(-INF).argmax(-1)[:3]
        for wrong in (None, 0, 1, 2):
            tokens = best.clone()
            if wrong is not None:
                tokens[wrong] = (tokens[wrong] + 1) if vocab > 1 else -1
            result = sdo.verify_greedy(rows, tokens)
            assert result == oracle.verify_greedy(rows, tokens.tolist()), family
            assert [type(value) for value in result] == [int, int]


def test_greedy_takes_the_first_maximum(sdo):
    rows = torch.tensor([[0.5, 0.5, 0.0], [NAN, 0.2, 0.2], [NAN, NAN, NAN]])
    assert sdo.verify_greedy(rows, torch.tensor([0, 1])) == (2, -1)
    assert sdo.verify_greedy(rows, torch.tensor([1, 1])) == (0, 0)
    assert sdo.verify_greedy(rows[:1], torch.empty(0, dtype=torch.int64)) == (0, 0)
