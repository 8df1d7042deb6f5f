# SPDX-License-Identifier: Apache-2.0
"""The rules emit exactly the target's law, over several rounds; the rules others shipped do not."""

from collections import Counter
from fractions import Fraction as F

import law
import pytest
from law import TOKEN_RULE, Rule, deterministic, independent, inverse

# Rows in twelfths, zeros included, so that noise of 12 cells is exact for all of them.
TARGET_ROWS = {
    2: [(4, 8), (12, 0), (9, 3)],
    3: [(6, 4, 2), (0, 8, 4), (3, 0, 9), (4, 4, 4)],
    4: [(6, 3, 3, 0), (1, 2, 4, 5), (0, 0, 12, 0)],
}
DRAFT_ROWS = {
    2: [(8, 4), (6, 6), (0, 12)],
    3: [(2, 4, 6), (4, 8, 0), (12, 0, 0), (5, 4, 3)],
    4: [(3, 3, 3, 3), (0, 6, 6, 0), (5, 4, 2, 1)],
}


def model(rows):
    """A model whose row depends on all of the prefix."""
    rows = [tuple(F(w, 12) for w in row) for row in rows]
    return lambda prefix: rows[(sum((i + 2) * (t + 1) for i, t in enumerate(prefix))) % len(rows)]


def models(vocab):
    return model(TARGET_ROWS[vocab]), model(DRAFT_ROWS[vocab])


def fixed(*row):
    return lambda prefix: row


def distance(target, drafts, rule, length):
    stream = law.stream_law(target, drafts, rule, length)
    assert sum(stream.values()) == 1
    return law.total_variation(stream, law.plain_law(target, length))


CASES = [(vocab, k) for vocab in (2, 3, 4) for k in (0, 1, 2, 3)]


# One token more than a round can emit takes at least two rounds.
@pytest.mark.parametrize("vocab, k", CASES)
def test_the_token_rule_preserves_the_target_law_over_rounds(vocab, k):
    target, draft = models(vocab)
    assert distance(target, independent(draft, k), TOKEN_RULE, k + 2) == 0


@pytest.mark.parametrize("vocab, k", CASES)
def test_a_deterministic_draft_preserves_the_target_law(vocab, k):
    target, _ = models(vocab)
    drafts = deterministic(lambda prefix: (sum(prefix) + len(prefix)) % vocab, vocab, k)
    assert distance(target, drafts, TOKEN_RULE, k + 2) == 0


@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_a_ragged_draft_preserves_the_target_law(vocab):
    target, draft = models(vocab)
    drafts = independent(draft, lambda prefix: (2 * len(prefix) + sum(prefix)) % 3)
    assert distance(target, drafts, TOKEN_RULE, 4) == 0


@pytest.mark.parametrize("vocab", [3, 4])
def test_a_narrow_draft_vocabulary_preserves_the_target_law(vocab):
    target, _ = models(vocab)
    _, draft = models(vocab - 1)
    assert distance(target, independent(draft, 2), TOKEN_RULE, 4) == 0


def test_a_token_that_its_own_law_excludes_ends_the_draft():
    """It is not an event of the draft's law; drawing from p keeps the law whatever it was."""
    target, _ = models(3)
    q = (F(1, 2), F(1, 2), F(0))
    assert distance(target, lambda prefix: [(F(1), [(2, q)])], TOKEN_RULE, 3) == 0


def test_draft_noise_used_again_keeps_the_token_rule_exact():
    """Drafts from noise keyed by absolute position, also when a position is drafted again."""
    (target, draft), k, length, cells = models(3), 2, 3, 12

    def drafts_with(noise):
        def drafts(prefix):
            tokens = []
            for i in range(k):
                q = draft((*prefix, *(t for t, _ in tokens)))
                tokens.append((inverse(q, noise[len(prefix) + i], cells), q))
            return [(F(1), tokens)]

        return drafts

    stream, count = Counter(), 0
    for noise in law.every_noise(cells, length):
        stream.update(law.stream_law(target, drafts_with((*noise, 0, 0)), TOKEN_RULE, length))
        count += 1
    average = {tokens: weight / count for tokens, weight in stream.items()}
    assert law.total_variation(average, law.plain_law(target, length)) == 0


@pytest.mark.parametrize("k, mean", [(1, F(2, 3)), (2, F(10, 9)), (3, F(38, 27)), (4, F(130, 81))])
def test_the_mean_accepted_length_is_the_published_one(k, mean):
    target, draft = fixed(F(1, 3), F(2, 3)), fixed(F(2, 3), F(1, 3))
    assert law.mean_accepted(target, independent(draft, k), TOKEN_RULE) == mean


@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_acceptance_is_the_overlap_of_the_laws(vocab):
    """P(at least i accepted) = E[prod of sum_x min(p, q)]; for one draft, the overlap itself."""
    target, draft = models(vocab)
    for prefix in [(), (0,), (1,), (1, 0)]:
        overlap = sum(map(min, target(prefix), draft(prefix)))
        assert law.mean_accepted(target, independent(draft, 1), TOKEN_RULE, prefix) == overlap


# ---- The coupled rule ----


def coupled_streams(vocab, k, length, **noise_of):
    target, draft = models(vocab)
    for noise in law.every_noise(12, length):
        longer = (*noise, *[5] * k)

        def drafts(prefix, longer=longer):
            tokens = []
            for i in range(k):
                here = (*prefix, *(t for t, _ in tokens))
                tokens.append((inverse(draft(here), longer[len(prefix) + i], 12), None))
            return [(F(1), tokens)]

        yield law.coupled_stream(target, drafts, longer, sample12, length, **noise_of)


def sample12(p, cell):
    return inverse(p, cell, 12)


def law_of(streams):
    counts = Counter(streams)
    return {stream: F(n, sum(counts.values())) for stream, n in counts.items()}


@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_coupled_streams_are_plain_sampling_for_every_noise_and_k(vocab):
    plain = list(coupled_streams(vocab, 0, 3))
    assert law.total_variation(law_of(plain), law.plain_law(models(vocab)[0], 3)) == 0
    for k in (1, 2, 3):
        assert list(coupled_streams(vocab, k, 3)) == plain


def test_coupled_noise_keyed_by_the_place_in_the_round_is_caught():
    streams = coupled_streams(3, 1, 3, noise_of=lambda start, i: i)
    assert law.total_variation(law_of(streams), law.plain_law(models(3)[0], 3)) > F(1, 10)


# ---- Rules that others shipped, by PITFALLS' kinds: enumeration sees each of them ----


def subtract_only_the_draft_token(p, q, t):
    return [max(a - b, 0) if s == t else a for s, (a, b) in enumerate(zip(p, q))]


def subtract_by_rank(p, q, t):
    """Lists of the possible tokens, matched entry by entry as if they named the same tokens."""
    residual = [F(0)] * len(p)
    drafts = [b for b in q if b] + [F(0)] * len(p)
    for s, b in zip([s for s in range(len(p)) if p[s]], drafts):
        residual[s] = max(p[s] - b, 0)
    return residual if any(residual) else list(p)


def subtract_nothing(p, q, t):
    return list(p)


def impossible_is_accepted(p, q, t):
    return p[t] / q[t] if q[t] else F(1)


@pytest.mark.parametrize("residual", [subtract_only_the_draft_token, subtract_nothing])
def test_a_wrong_residual_is_caught(residual):
    target, draft = models(3)
    rule = TOKEN_RULE._replace(residual=residual)
    assert distance(target, independent(draft, 2), rule, 2) > F(1, 20)


def test_a_residual_aligned_by_rank_emits_the_wrong_law():
    target = fixed(F(5, 10), F(3, 10), F(2, 10), F(0))
    draft = fixed(F(0), F(2, 10), F(3, 10), F(5, 10))
    rule = TOKEN_RULE._replace(residual=subtract_by_rank)
    emitted = law.stream_law(target, independent(draft, 1), rule, 1)
    assert emitted == {(0,): F(6, 10), (1,): F(2, 10), (2,): F(2, 10)}


def test_accepting_a_token_outside_its_law_is_caught():
    target, q = fixed(F(1, 2), F(1, 4), F(1, 4)), (F(1, 2), F(1, 2), F(0))
    rule = Rule(impossible_is_accepted, law.difference)
    assert distance(target, lambda prefix: [(F(1), [(2, q)])], rule, 1) == F(3, 4)


def test_a_filtered_draft_scored_by_its_raw_law_is_caught():
    target, raw = fixed(F(1, 2), F(1, 3), F(1, 6)), (F(1, 2), F(1, 4), F(1, 4))
    drawn = (F(2, 3), F(1, 3), F(0))
    drafts = lambda prefix: [(drawn[t], [(t, raw)]) for t in (0, 1)]  # noqa: E731
    assert distance(target, drafts, TOKEN_RULE, 1) == F(1, 6)


def test_an_argmax_draft_scored_by_its_soft_law_is_caught():
    soft = (F(51, 100), F(49, 100))
    target = fixed(*soft)
    assert distance(target, lambda prefix: [(F(1), [(0, soft)])], TOKEN_RULE, 1) == F(49, 100)
    hard = (F(1), F(0))
    assert distance(target, lambda prefix: [(F(1), [(0, hard)])], TOKEN_RULE, 1) == 0


def test_drafts_of_one_round_that_share_their_noise_are_caught():
    target, draft = fixed(F(1, 3), F(2, 3)), fixed(F(1, 2), F(1, 2))
    q = draft(())
    drafts = lambda prefix: [(F(1, 2), [(t, q), (t, q)]) for t in (0, 1)]  # noqa: E731
    assert distance(target, drafts, TOKEN_RULE, 2) == F(5, 18)
    assert distance(target, independent(draft, 2), TOKEN_RULE, 2) == 0
