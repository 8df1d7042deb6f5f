# SPDX-License-Identifier: Apache-2.0
"""verify and accept by the block rule: to the bit, and exact in law."""

from fractions import Fraction as F

import cases
import pytest
import torch
from cases import DTYPES, FAMILIES, FILTERS, INF, LAYOUTS, NAN, with_history
from oracle import block, oracle
from spec_law import Setup, biased, distance
from spec_law.compiled import accept_of
from spec_law.models import constant, padded, sampled, table
from test_boundaries import PROBABILITIES, every_round, on_the_grid, rounds_of, signed

SEED, OFFSET = 91, 2**33 + 1


# ---- To the bit ----


def a_batch(family, count, k, vocab, dtype=torch.float32, draft_vocab=None):
    """Target and draft logits, and tokens that the draft likes: near the target in even rows and
    less so in odd ones, so that tests of every height pass and fail."""
    draft_vocab = draft_vocab or vocab
    shared = min(vocab, draft_vocab)
    target = cases.rows(family, count * (k + 1), vocab).view(count, k + 1, vocab)
    noise = cases.rows("normal", count * k, draft_vocab).view(count, k, draft_vocab)
    draft = noise / 2
    draft[1::2] *= 2
    draft[..., :shared] += target[:, :k, :shared]
    tokens = draft.nan_to_num(-INF, INF).add(noise.flip(-1)).argmax(-1)
    return target.to(dtype), draft.to(dtype), tokens


def verify(sdo, target, draft, tokens, seed=SEED, **arguments):
    accept_len, out = sdo.verify(
        target, draft, tokens, seed=seed, offset=OFFSET, method="block", **arguments
    )
    return accept_len.tolist(), out.tolist()


def check(sdo, target, draft, tokens, seed=SEED, **arguments):
    lengths, out = verify(sdo, target, draft, tokens, seed, **arguments)
    for b, given in enumerate(tokens.tolist()):
        n, token = oracle.verify(
            target[b],
            draft[b],
            given,
            cases.filter_of(arguments, b),
            oracle.Place(seed, OFFSET, b),
            cases.previous_of(arguments, b),
            judge=block.verify_rows,
        )
        assert (lengths[b], out[b]) == (n, [*given[:n], token, *[-1] * (len(given) - n)])
    return lengths


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", [1, 2, 31, 511, 512, 513, 1024, 4097])
def test_rounds_are_the_oracles(sdo, vocab, dtype):
    for family in FAMILIES:
        check(sdo, *a_batch(family, 4, 4, vocab, dtype))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("vocab", [4, 513, 2000])
def test_filters_apply_to_both_models(sdo, vocab, name):
    for family in ("normal", "ties", "holes"):
        arguments = with_history(FILTERS[name], 6, vocab)
        check(sdo, *a_batch(family, 6, 3, vocab), **arguments)


@pytest.mark.parametrize("name", ["off", "top_k", "top_p", "chain"])
def test_large_rows_are_the_oracles(sdo, name):
    check(sdo, *a_batch("normal", 3, 3, 50257, torch.bfloat16), **FILTERS[name])


def test_every_number_of_tokens_stands_somewhere(sdo):
    """The batches above reach every branch: tests of each height pass in some row."""
    lengths = set()
    for seed in range(4):
        lengths.update(check(sdo, *a_batch("normal", 24, 4, 31), seed=seed))
    assert lengths == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("draft_vocab", [1, 5, 511, 600, 601, 1100])
@pytest.mark.parametrize("name", ["off", "top_k", "top_p", "penalty"])
def test_the_draft_vocabulary_may_be_another(sdo, draft_vocab, name):
    target, draft, tokens = a_batch("normal", 6, 3, 600, draft_vocab=draft_vocab)
    tokens[0, 0], tokens[1, 1], tokens[2, 2] = 599, 650, 1099
    check(sdo, target, draft, tokens, **with_history(FILTERS[name], 6, 600))


def test_each_row_is_judged_under_its_own_rule(sdo):
    """Ragged and greedy rows, rows without a token and filtered rows in one batch."""
    for seed in range(6):
        target, draft, tokens = a_batch("normal", 8, 4, 300)
        for b in range(4):
            tokens[b, b] = [-1, 300, -(2**63), 2**62][b]
        target[4, 1], target[5, 4], draft[6, 2] = -INF, NAN, NAN
        tokens[7] = target[7, :4].argmax(-1)
        check(
            sdo,
            target,
            draft,
            tokens,
            seed,
            temperature=torch.tensor([1, 0.7, 0, 2, 1, 1, 1, -1.0]),
            top_k=torch.tensor([0, 5, 3, 300, 50, 0, 20, 7]),
            top_p=torch.tensor([0.9, 1, 0.8, 1, 1, 0.7, 0.95, 0.5]),
        )


def test_greedy_rows_keep_the_rule_of_equality(sdo):
    target, draft, tokens = a_batch("ties", 8, 3, 30)
    tokens[::2] = target[::2, :3].argmax(-1)
    plain = sdo.verify(target, None, tokens, temperature=0.0)
    for a, b in zip(plain, sdo.verify(target, draft, tokens, temperature=0.0, method="block")):
        assert torch.equal(a, b)


def test_a_deterministic_draft_is_judged_by_the_token_rule(sdo):
    target, _, tokens = a_batch("normal", 16, 3, 5)
    tokens[3, 1] = -1
    block_, token = (
        sdo.verify(target, None, tokens, seed=3, method=method) for method in ("block", "token")
    )
    assert torch.equal(block_[1], token[1])
    uniforms = torch.rand(16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rows = target.softmax(-1), None, tokens
    block_, token = (
        sdo.accept(*rows, uniforms=uniforms, method=method) for method in ("block", "token")
    )
    assert torch.equal(torch.stack(block_), torch.stack(token))


def test_a_draft_of_one_token_is_judged_as_by_the_token_rule(sdo):
    target, draft, tokens = a_batch("normal", 64, 1, 50)
    for name in ("off", "chain"):
        block_, token = (
            sdo.verify(target, draft, tokens, seed=3, method=method, **FILTERS[name])
            for method in ("block", "token")
        )
        assert torch.equal(block_[1], token[1])


def test_infinite_logits_share_a_row(sdo):
    target, draft, tokens = a_batch("normal", 4, 3, 40)
    target[:, 1:, [3, 7]] = INF
    draft[1, :, [3, 9]] = INF
    tokens[:, 1:] = torch.tensor([3, 7])
    for seed in range(4):
        check(sdo, target, draft, tokens, seed)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_does_not_matter(sdo, layout):
    for dtype in DTYPES:
        target, draft, tokens = a_batch("holes", 4, 3, 999, dtype)
        plain = verify(sdo, target, draft, tokens)
        assert verify(sdo, layout(target), layout(draft), tokens) == plain


def test_no_drafts_and_empty_batches_work(sdo):
    target = cases.rows("normal", 4, 30).view(4, 1, 30)
    tokens = torch.empty(4, 0, dtype=torch.int64)
    check(sdo, target, torch.empty(4, 0, 30), tokens)
    empty = torch.empty(0, 3, 9), torch.empty(0, 2, 9), torch.empty(0, 2, dtype=torch.int64)
    accept_len, out = sdo.verify(*empty, seed=1, method="block")
    assert accept_len.shape == (0,) and out.shape == (0, 3)


def test_a_long_draft_works(sdo):
    """The joint share falls to nothing on the way."""
    target, draft, tokens = a_batch("peaked", 4, 100, 12)
    check(sdo, target, draft, tokens)
    lengths = check(sdo, target, target[:, :100].contiguous(), tokens)
    assert 100 in lengths


def test_inputs_are_not_written_to(sdo):
    target, draft, tokens = a_batch("holes", 3, 2, 999)
    previous = cases.history(3, 9, 999)
    copies = [t.clone() for t in (target, draft, tokens, previous)]
    for arguments in FILTERS.values():
        given = {"repetition_penalty": 1.5, **arguments, "prev_tokens": previous}
        verify(sdo, target, draft, tokens, **given)
    for now, before in zip((target, draft, tokens, previous), copies):
        torch.testing.assert_close(now, before, rtol=0, atol=0, equal_nan=True)


def test_targets_and_threads_do_not_matter(sdo):
    batches = [
        (*a_batch(family, 16, 3, vocab, dtype), arguments)
        for family in ("normal", "holes")
        for vocab, dtype in ((999, torch.float32), (20011, torch.bfloat16))
        for arguments in ({}, FILTERS["chain"])
    ]
    uniforms = torch.rand(16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def answers():
        for target, draft, tokens, arguments in batches:
            yield verify(sdo, target, draft, tokens, **arguments)
            rows = target.nan_to_num(-INF).softmax(-1), draft.nan_to_num(-INF).softmax(-1), tokens
            for normalized in (False, True):
                result = sdo.accept(*rows, uniforms=uniforms, normalized=normalized, method="block")
                yield torch.stack(result).tolist()

    before, threads = sdo._cpu_target(), torch.get_num_threads()
    plain = list(answers())
    try:
        for name in ("scalar", *sorted(supported(sdo))):
            sdo._cpu_target(name)
            for count in (1, 2, 5):
                torch.set_num_threads(count)
                assert list(answers()) == plain, (name, count)
    finally:
        sdo._cpu_target(before)
        torch.set_num_threads(threads)


def supported(sdo):
    """The vector targets that this machine has."""
    before = sdo._cpu_target()
    for name in ("avx2", "avx512", "neon"):
        try:
            yield sdo._cpu_target(name)
        except RuntimeError:
            continue
        finally:
            sdo._cpu_target(before)


# ---- accept ----


def a_sequence(k, vocab, dtype=torch.float32, scale=1.0, nearness=2.0):
    logits = cases.rows("normal", 2 * k + 1, vocab)
    logits[k + 1 :] = logits[:k] + logits[k + 1 :] / nearness
    rows = (logits.softmax(-1) * scale).to(dtype)
    dice = torch.rand(k, vocab, generator=torch.Generator().manual_seed(1))
    tokens = rows[k + 1 :].float().pow(0.3).mul(dice).argmax(-1)
    return rows[: k + 1], rows[k + 1 :], tokens


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", [1, 2, 31, 512, 1025, 20011])
def test_sequences_are_the_oracles(sdo, vocab, dtype):
    for scale, nearness in ((1.0, 2.0), (4.0, 0.7), (1e-30, 1.0)) if vocab < 5000 else ((4.0, 1),):
        target, draft, tokens = a_sequence(4, vocab, dtype, scale, nearness)
        if scale < 1e-20:
            draft = draft / draft.float().max().to(dtype)
            if dtype != torch.float32:
                target = target.float()
        for seed in range(6):
            dice = torch.Generator().manual_seed(seed)
            uniforms = torch.rand(5, dtype=torch.float64, generator=dice)
            for normalized in (False, True):
                wanted = oracle.accept(
                    target, draft, tokens.tolist(), uniforms.tolist(), normalized, block.verify_rows
                )
                dice = torch.Generator().manual_seed(seed)
                given = target, draft, tokens, dice
                assert sdo.accept(*given, normalized=normalized, method="block") == wanted


def test_rows_of_infinite_and_senseless_entries_are_the_oracles(sdo):
    target, draft, tokens = a_sequence(3, 40)
    target[1, [3, 5]], target[2, 7], draft[0, 2], draft[1, 3] = INF, -1.0, NAN, INF
    tokens[1] = 3
    for seed in range(8):
        dice = torch.Generator().manual_seed(seed)
        uniforms = torch.rand(4, dtype=torch.float64, generator=dice)
        given = target, draft, tokens, uniforms
        wanted = oracle.accept(
            *given[:2], tokens.tolist(), uniforms.tolist(), False, block.verify_rows
        )
        assert sdo._accept_with_uniforms(*given, method="block") == wanted


def test_accept_draws_the_same_uniforms_as_the_token_rule(sdo):
    target, draft, tokens = a_sequence(3, 40)
    states = []
    for method in ("token", "block"):
        dice = torch.Generator().manual_seed(2)
        sdo.accept(target, draft, tokens, dice, method=method)
        states.append(dice.get_state())
    assert torch.equal(*states)


# ---- Boundaries ----


def verified(sdo, target, drafted, tokens, words, temperature):
    accept_len, out = sdo._verify_with_words(
        torch.stack(target),
        torch.stack(drafted),
        torch.tensor(tokens),
        torch.tensor([[signed(w) for w in row] for row in words]),
        temperature=temperature,
        method="block",
    )
    last = out.gather(1, accept_len[:, None])[:, 0]
    return list(zip(accept_len.tolist(), last.tolist()))


@pytest.mark.parametrize("vocab, k", [(2, 1), (2, 2), (3, 1), (3, 2), (2, 3)])
@pytest.mark.parametrize("draft", ["soft", "same"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_verify_decides_as_the_rule_on_both_sides(sdo, vocab, k, draft, temperature):
    rounds = rounds_of(block.verifier, vocab, k, draft, temperature)
    target, drafted, tokens, words, results = zip(*rounds)
    assert verified(sdo, target, drafted, tokens, words, temperature) == list(results)


@pytest.mark.parametrize("rule", biased.BLOCK)
def test_the_sides_tell_a_rule_from_a_biased_one(sdo, rule):
    target, drafted, tokens, words, results = zip(*rounds_of(rule, 3, 2, "soft", 1.0))
    assert verified(sdo, target, drafted, tokens, words, 1.0) != list(results)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("vocab, k", [(2, 2), (3, 2)])
def test_accept_decides_as_the_rule_on_both_sides(sdo, vocab, k, normalized):
    for start in range(len(PROBABILITIES)):
        rows = [PROBABILITIES[(start + i) % len(PROBABILITIES)] for i in range(2 * k + 1)]
        rows = torch.tensor(rows)[:, :vocab].contiguous()
        target, draft = rows[: k + 1], rows[k + 1 :]
        weights = [oracle.probability_weights(row, normalized) for row in rows]
        p_rows = [tuple(F(w, total or 1) for w in row) for row, total in weights]
        for tokens, words, _ in every_round(
            block.verifier, p_rows[: k + 1], p_rows[k + 1 :], vocab, k
        ):
            for side in (0, 1):
                uniforms = [float(on_the_grid(w)[side]) if w else 0.0 for w in words]
                given = target, draft, torch.tensor(tokens)
                u = torch.tensor(uniforms, dtype=torch.float64)
                wanted = oracle.accept(
                    target, draft, tokens, uniforms, normalized, block.verify_rows
                )
                assert sdo._accept_with_uniforms(*given, u, normalized, "block") == wanted


# ---- Law ----

P, Q = constant(F(1, 3), F(2, 3)), constant(F(2, 3), F(1, 3))
MODELS = [(P, Q), (table([(6, 4, 2), (0, 8, 4)]), table([(2, 4, 6), (4, 8, 0)]))]


def ragged(model, k):
    return padded(sampled(model, lambda prefix, tokens: len(tokens) < k - len(prefix) % 2), k)


@pytest.mark.parametrize("target, model", MODELS)
@pytest.mark.parametrize("draft, k", [(sampled, 1), (sampled, 2), (ragged, 2)])
def test_the_compiled_accept_has_total_variation_0(sdo, target, model, draft, k):
    setup = Setup(target, draft(model, k), accept_of(sdo, grid=9, method="block"))
    setup = setup._replace(context=lambda x: (target.state(x), len(x) % 2))
    assert distance(setup, k + 2) == 0


# ---- Errors ----


def test_a_rule_that_is_not_there_is_refused_by_the_ops(sdo):
    target, draft, tokens = a_batch("normal", 2, 2, 9)
    ops = sdo._ops.ops
    with pytest.raises(RuntimeError, match=r"verify: rule is 3, wanted 0 \.\. 2"):
        ops.verify.default(target, draft, tokens, 1.0, 1, 0, 3)
    uniforms = torch.zeros(2, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"accept: rule is 2, wanted 0 \.\. 1"):
        ops.accept.tensors(target, draft, tokens, uniforms, False, 2)
