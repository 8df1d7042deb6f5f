# SPDX-License-Identifier: Apache-2.0
"""Block verification on CUDA, run by the emulator, is that of the CPU: accepted lengths and tokens,
on both sides of every boundary, whatever the schedule; and it reads no more than it has to."""

import itertools

import pytest
import torch
from cases import INF, NAN, history
from oracle import block
from spec_law import biased
from test_boundaries import rounds_of, signed
from test_cuda_same_bits import probabilities, round_of

SEED, OFFSET = -7, (1 << 59) + 3
LARGEST_WORD = -1  # as int64
RULES = {
    "off": {},
    "chain": {"top_k": 20, "top_p": 0.9, "min_p": 0.01, "temperature": 0.8},
    "nucleus": {"top_p": 0.7},
    "penalty": {"repetition_penalty": 1.4, "temperature": 1.2},
}


@pytest.fixture(autouse=True)
def in_order(emulated):
    yield
    emulated.configure()


def far_round(count, drafts, vocab, *more, noise=1.0, **arguments):
    """As round_of, with a draft that is further from the target: rounds end anywhere."""
    target, draft, tokens = round_of(count, drafts, vocab, *more, **arguments)
    g = torch.Generator().manual_seed(drafts)
    return target, (draft + noise * torch.randn(draft.shape, generator=g)).to(draft.dtype), tokens


def verified(package, *given, **arguments):
    arguments = {"seed": SEED, "offset": OFFSET, **arguments}
    accept_len, out = package.verify(*given, method="block", **arguments)
    return accept_len.tolist(), out.tolist()


def assert_same(sdo, emulated, *given, **arguments):
    here = verified(sdo, *given, **arguments)
    assert verified(emulated.package, *given, **arguments) == here
    return here


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("vocab", [1, 2, 31, 999, 4097])
def test_verification_is_that_of_the_cpu(sdo, emulated, vocab, rule):
    arguments = dict(RULES[rule])
    if rule == "penalty":
        arguments["prev_tokens"] = history(3, 12, vocab)
    for drafts, dtype in ((0, torch.float32), (1, torch.float16), (4, torch.bfloat16)):
        given = far_round(3, drafts, vocab, dtype=dtype)
        assert_same(sdo, emulated, *given, **arguments)
        assert_same(sdo, emulated, given[0], None, given[2], **arguments)


def test_a_long_round_is_that_of_the_cpu(sdo, emulated):
    given = far_round(2, 4, 32000)
    for rule in ("off", "chain"):
        assert_same(sdo, emulated, *given, **RULES[rule])


def test_verification_by_sorting_is_that_of_the_cpu(sdo, emulated):
    given = far_round(3, 2, 999)
    here = verified(sdo, *given, **RULES["chain"])
    assert verified(emulated.package, *given, algorithm="sort", **RULES["chain"]) == here


def test_a_draft_may_be_longer_than_a_warp(sdo, emulated):
    lengths, _ = assert_same(sdo, emulated, *far_round(6, 40, 31, noise=0.1))
    assert max(lengths) > 32


@pytest.mark.parametrize("vocab, draft_vocab", [(999, 5), (999, 4097), (4097, 100)])
def test_vocabularies_may_differ(sdo, emulated, vocab, draft_vocab):
    for arguments in ({}, {"repetition_penalty": 1.4}):
        assert_same(sdo, emulated, *far_round(6, 3, vocab, draft_vocab), **arguments)


def test_ragged_senseless_and_greedy_rounds_end_as_on_the_cpu(sdo, emulated):
    target, draft, tokens = far_round(10, 4, 999)
    tokens[0, 0], tokens[1, 2], tokens[2, 1], tokens[3, 3] = -1, 999, 2**62, -(2**63)
    draft[4, 1, tokens[4, 1]] = -INF  # q(t) = 0
    target[5, 2] = -INF  # no token at all
    target[6, 1, tokens[6, 1]] = -INF  # p(t) = 0
    draft[7, 2] = -INF
    target[8, 0, :3], draft[8, 1, 5], target[9, 3, ::2] = INF, INF, NAN
    temperature = torch.tensor([1.0, 1.0, 0.7, 1.0, 1.0, 1.0, 1.0, 1.3, 1.0, 0.4])
    assert_same(sdo, emulated, target, draft, tokens, temperature=temperature)
    tokens[::2, :2] = target[::2, :2].nan_to_num(-INF).argmax(-1)
    temperature[::2] = 0.0
    lengths, _ = assert_same(sdo, emulated, target, draft, tokens, temperature=temperature)
    assert max(lengths[::2]) >= 2


def test_equal_laws_stand_whatever_the_words(sdo, emulated):
    target, _, tokens = round_of(3, 3, 999)
    target[1] = 0.0
    words = torch.full((3, 4), LARGEST_WORD)
    for package in (sdo, emulated.package):
        lengths, _ = package._verify_with_words(
            target, target[:, :3].contiguous(), tokens, words, method="block"
        )
        assert lengths.tolist() == [3, 3, 3]


@pytest.mark.parametrize("method", ["token", "block"])
def test_laws_that_nearly_agree_are_told_apart(sdo, emulated, method):
    """p and q of most tokens differ by less than 2^-18, so that wide products compare them."""
    target, _, tokens = round_of(6, 3, 999)
    draft = target[:, :3] * (1 + 1e-7 * torch.randn(6, 3, 999, generator=torch.manual_seed(1)))
    words = torch.full((6, 4), LARGEST_WORD)
    words[:, 3] = torch.arange(6) * 2**60
    given = (target, draft, tokens, words)
    here = sdo._verify_with_words(*given, method=method)
    there = emulated.package._verify_with_words(*given, method=method)
    assert any(length < 3 for length in here[0].tolist())
    for a, b in zip(here, there):
        assert torch.equal(a, b)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("vocab", [1, 31, 999, 4097])
def test_acceptance_is_that_of_the_cpu(sdo, emulated, vocab, normalized):
    target, draft, tokens = far_round(8, 3, vocab)
    p, q = probabilities(target), probabilities(draft)
    u = torch.rand(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(vocab))
    u[:2], u[2:4] = 0.0, 1 - 2.0**-53
    tokens[5, 1] = -1
    if not normalized:
        p, q = 3 * p, q / 7
        p[0, 0, 0], p[4, 1], q[5, 0] = INF, 0.0, NAN
    for given in ([p, q, tokens], [p, None, tokens], [p.bfloat16(), q.half(), tokens]):
        here = sdo.accept(*given, uniforms=u, normalized=normalized, method="block")
        there = emulated.package.accept(*given, uniforms=u, normalized=normalized, method="block")
        for a, b in zip(here, there):
            assert torch.equal(a, b)


def test_a_draft_of_one_token_is_judged_as_by_the_token_rule(emulated):
    given = far_round(64, 1, 31)
    by_token = emulated.package.verify(*given, seed=SEED, offset=OFFSET)
    assert verified(emulated.package, *given) == tuple(each.tolist() for each in by_token)


# ---- Boundaries ----


def judged(package, target, drafted, tokens, words):
    accept_len, out = package._verify_with_words(
        torch.stack(target),
        torch.stack(drafted),
        torch.tensor(tokens),
        torch.tensor([[signed(w) for w in row] for row in words]),
        method="block",
    )
    last = out.gather(1, accept_len[:, None])[:, 0]
    return list(zip(accept_len.tolist(), last.tolist()))


@pytest.mark.parametrize("vocab, k, draft", [(3, 2, "soft"), (2, 3, "soft"), (2, 2, "same")])
def test_it_decides_as_the_rule_on_both_sides(emulated, vocab, k, draft):
    *given, results = zip(*rounds_of(block.verifier, vocab, k, draft, 1.0))
    assert judged(emulated.package, *given) == list(results)


@pytest.mark.parametrize("rule", biased.BLOCK)
def test_the_sides_tell_it_from_a_biased_rule(emulated, rule):
    *given, results = zip(*rounds_of(rule, 2, 2, "soft", 1.0))
    assert judged(emulated.package, *given) != list(results)


# ---- Schedules, other GPUs ----


def test_no_schedule_changes_a_token(sdo, emulated):
    """60 orders of blocks and warps."""
    given = far_round(3, 3, 999)
    p, q = (probabilities(rows) for rows in given[:2])
    uniforms = torch.full((3, 4), 0.6, dtype=torch.float64)
    calls = [
        lambda package: package.verify(*given, seed=SEED, method="block")[1],
        lambda package: package.verify(*given, seed=SEED, method="block", **RULES["chain"])[1],
        lambda package: package.accept(p, q, given[2], uniforms=uniforms, method="block")[1],
    ]
    wanted = [call(sdo) for call in calls]
    for schedule, (i, call) in zip(range(1, 61), itertools.cycle(enumerate(calls))):
        emulated.configure(schedule)
        assert torch.equal(call(emulated.package), wanted[i]), (schedule, i)


def test_the_code_for_hopper_gives_the_same(sdo):
    from cuda_emulator import library

    for vocab, rule in ((999, "off"), (4097, "chain")):
        assert_same(sdo, library.load("9.0"), *far_round(3, 3, vocab), **RULES[rule])


# ---- What it costs ----

VOCAB, DRAFTS = 32000, 3
FROM_LOGITS = ["scan_kernel", "mass_kernel", "reach_kernel", "pair_kernel", "pick_kernel"]


def rows_read(read, kind, element=4):
    return sum(read[f"{model}_{kind}"] for model in ("target", "draft")) / (VOCAB * element)


def unlikely_round():
    """One whose last draft token the target has for less likely than the draft."""
    target, draft, tokens = far_round(1, DRAFTS, VOCAB)
    target[0, DRAFTS - 1, tokens[0, -1]] = draft[0, -1, tokens[0, -1]] - 3
    return target, draft, tokens


def counted_rows(counted, word, change=None):
    """The rows that are read after the scan, which reads each of them once."""
    target, draft, tokens = unlikely_round()
    if change:
        change(target, draft, tokens)
    words = torch.full((1, DRAFTS + 1), word)
    names, read = counted(
        lambda package: package._verify_with_words(target, draft, tokens, words, method="block")
    )
    assert names == FROM_LOGITS
    return rows_read(read, "logits") - (2 * DRAFTS + 1)


def test_a_draft_that_stands_costs_no_pair(counted):
    """Each row's mass is summed once; the token after the draft is in a tile that is read again."""
    rows = counted_rows(counted, 0)
    assert 2 * DRAFTS + 1 <= rows < 2 * DRAFTS + 1.02


def test_a_test_that_its_word_alone_fails_costs_no_pair(counted):
    """The largest word passes no test but the last one whose share is 1."""
    rows = counted_rows(counted, LARGEST_WORD)
    assert 2 * DRAFTS + 3 <= rows < 2 * DRAFTS + 3.04


def test_rows_behind_a_token_without_mass_are_not_summed(counted):
    def without_mass(target, draft, tokens):
        target[0, 0, tokens[0, 0]] = -INF

    rows = counted_rows(counted, 0, without_mass)
    assert 4 <= rows < 4.04


@pytest.mark.parametrize("uniform, pairs", [(0.0, 0.5), (1 - 2.0**-53, 1)])
def test_normalised_acceptance_reads_one_row_or_one_pair(counted, uniform, pairs):
    target, draft, tokens = unlikely_round()
    p, q = target.softmax(-1), draft.softmax(-1)
    uniforms = torch.full((1, DRAFTS + 1), uniform, dtype=torch.float64)
    names, read = counted(
        lambda package: package.accept(
            p, q, tokens, uniforms=uniforms, normalized=True, method="block"
        )
    )
    assert names == FROM_LOGITS[2:]
    assert 2 * pairs <= rows_read(read, "probs") < 2 * pairs + 0.04


def test_a_deterministic_draft_is_verified_by_the_token_rule(counted):
    target, _, tokens = far_round(1, DRAFTS, 999)
    names, _ = counted(lambda package: package.verify(target, None, tokens, seed=1, method="block"))
    assert names == ["scan_kernel", "mass_kernel", "pick_kernel"]
