# SPDX-License-Identifier: Apache-2.0
"""draft_token_ids: a draft whose column j is target token ids[j]."""

import cases
import pytest
import torch
from cases import DTYPES, FILTERS, INF

ROWS, K, VOCAB, WIDTH = 5, 3, 700, 180


def a_round(dtype=torch.float32, seed=1):
    """target [B, K+1, V], draft [B, K, Vd] near it, ids [Vd], draft tokens by target id."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randperm(VOCAB, generator=g)[:WIDTH].sort().values
    target = 2 * torch.randn(ROWS, K + 1, VOCAB, generator=g)
    target[..., ids] += 2
    draft = target[:, :K, ids] + 0.7 * torch.randn(ROWS, K, WIDTH, generator=g)
    columns = draft.softmax(-1).view(-1, WIDTH).multinomial(1, generator=g).view(ROWS, K)
    return target.to(dtype), draft.to(dtype), ids, ids[columns]


def by_hand(draft, ids):
    """The draft's rows at the target's width, value by value."""
    full = torch.full((*draft.shape[:-1], VOCAB), -INF, dtype=draft.dtype)
    for column, token in enumerate(ids.tolist()):
        full[..., token] = draft[..., column]
    return full


def with_history(arguments):
    if "repetition_penalty" in arguments:
        return {**arguments, "prev_tokens": cases.history(ROWS, 30, VOCAB)}
    return arguments


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("method", ["token", "coupled"])
def test_columns_are_the_tokens_they_stand_for(sdo, name, dtype, method):
    accepted = 0
    for seed in range(4):
        target, draft, ids, tokens = a_round(dtype, seed)
        arguments = with_history({**FILTERS[name], "seed": seed, "method": method})
        found = sdo.verify(target, draft, tokens, draft_token_ids=ids, **arguments)
        wanted = sdo.verify(target, by_hand(draft, ids), tokens, **arguments)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted))
        accepted += found[0].sum().item()
    if method == "token" and name in ("off", "temperature", "chain", "penalty"):
        assert 0 < accepted < 4 * ROWS * K


def test_without_the_ids_it_would_be_another_round(sdo):
    """What the comparison sees, if columns are taken for the tokens of their own number."""
    target, draft, ids, tokens = a_round()
    found = sdo.verify(target, draft, tokens, seed=1, draft_token_ids=ids)
    other = sdo.verify(target, draft, tokens, seed=1)
    assert not torch.equal(found[1], other[1])


def test_the_filters_of_the_narrow_row_are_those_of_the_wide_one(sdo):
    """The draft samples among its own columns, and verification knows the same kept set."""
    _, draft, ids, _ = a_round()
    draft = draft.mul(2).round() / 2  # ties, of which the lower ids are kept
    for arguments in ({"top_k": 20}, {"top_p": 0.7}, {"min_p": 0.1}, {"top_k": 30, "top_p": 0.5}):
        narrow = sdo.filter_logits(draft[:, 0], **arguments)
        wide = sdo.filter_logits(by_hand(draft, ids)[:, 0], **arguments)
        assert cases.same_bits(wide[:, ids], narrow)


def test_a_token_that_the_draft_lacks_ends_it(sdo):
    target, draft, ids, tokens = a_round()
    lacking = next(t for t in range(VOCAB) if t not in ids.tolist())
    tokens[:, 1] = lacking
    accept_len, _ = sdo.verify(target, draft, tokens, seed=1, draft_token_ids=ids)
    assert (accept_len <= 1).all()


def test_any_number_of_ids_works(sdo):
    target, draft, ids, tokens = a_round()
    for some in (ids[:1], torch.arange(VOCAB), torch.tensor([0, VOCAB - 1])):
        rows = target[:, :K, some]
        found = sdo.verify(target, rows, tokens, seed=1, draft_token_ids=some)
        wanted = sdo.verify(target, by_hand(rows, some), tokens, seed=1)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted))
    layout = cases.padded(draft)
    found = sdo.verify(target, layout, tokens, seed=1, draft_token_ids=ids.repeat(2)[:WIDTH])
    assert torch.equal(found[1], sdo.verify(target, draft, tokens, seed=1, draft_token_ids=ids)[1])


def test_the_narrow_draft_keeps_the_targets_law(sdo):
    """First tokens over 40,000 rounds of a tiny model against p, by a chi-square of 3 degrees whose
    false alarms are 1e-6; a draft taken at face value fails it by far."""
    rows = 40_000
    p = torch.tensor([0.1, 0.2, 0.3, 0.4])
    ids, q = torch.tensor([1, 3]), torch.tensor([0.7, 0.3])
    g = torch.Generator().manual_seed(5)
    columns = q.expand(rows, 2).multinomial(1, generator=g)
    target = p.log().expand(rows, 2, 4)
    draft = q.log().expand(rows, 1, 2)

    def statistic(tokens, **arguments):
        _, out = sdo.verify(target, draft, tokens, seed=9, **arguments)
        seen = out[:, 0].bincount(minlength=4)
        return ((seen - rows * p) ** 2 / (rows * p)).sum().item()

    assert statistic(ids[columns], draft_token_ids=ids) < 30.7
    assert statistic(columns, draft_token_ids=None) < 30.7  # its own tokens, its own columns
    assert statistic(ids[columns]) > 1000


def test_wrong_ids_are_refused_before_any_work(sdo):
    target, draft, ids, tokens = a_round()
    state = torch.get_rng_state()
    swapped, doubled, low, high = (ids.clone() for _ in range(4))
    swapped[[4, 5]] = ids[[5, 4]]
    doubled[5] = doubled[4]
    low[0], high[-1] = -1, VOCAB
    for wrong, text in [
        (swapped, rf"draft_token_ids is {ids[5]} at 4 and {ids[4]} after it, wanted strictly"),
        (doubled, rf"draft_token_ids is {ids[4]} at 4 and {ids[4]} after it, wanted strictly"),
        (low, r"draft_token_ids is -1 at 0, wanted ids in \[0, 700\)"),
        (high, r"draft_token_ids is 700 at 179, wanted ids in \[0, 700\)"),
    ]:
        with pytest.raises(ValueError, match=text):
            sdo.verify(target, draft, tokens, draft_token_ids=wrong)
    for wrong, given in [(ids.int(), r"int32\[180\]"), (ids[1:], r"int64\[179\]"), (ids[None], "")]:
        with pytest.raises(
            RuntimeError, match=rf"draft_token_ids is {given}.*int64 of shape \[180"
        ):
            sdo.verify(target, draft, tokens, draft_token_ids=wrong)
    with pytest.raises(TypeError, match="draft_token_ids is a list, wanted a tensor or None"):
        sdo.verify(target, draft, tokens, draft_token_ids=ids.tolist())
    with pytest.raises(ValueError, match="draft_token_ids is given and draft_logits is None"):
        sdo.verify(target, None, tokens, draft_token_ids=ids)
    with pytest.raises(RuntimeError, match="verify: draft_logits is .*, wanted"):
        sdo.verify(target, draft[:, 1:], tokens, draft_token_ids=ids)
    assert torch.equal(torch.get_rng_state(), state)


def test_inputs_are_not_written_to(sdo):
    given = a_round()
    copies = [each.clone() for each in given]
    target, draft, ids, tokens = given
    sdo.verify(target, draft, tokens, seed=1, draft_token_ids=ids)
    assert all(torch.equal(a, b) for a, b in zip(given, copies))


def test_a_compiled_call_returns_the_same(sdo):
    target, draft, ids, tokens = a_round()

    def call(*tensors):
        return sdo.verify(*tensors[:3], seed=1, draft_token_ids=tensors[3])

    torch.compiler.reset()
    found = torch.compile(call, backend="aot_eager", fullgraph=True)(target, draft, tokens, ids)
    assert all(torch.equal(a, b) for a, b in zip(found, call(target, draft, tokens, ids)))


# ---- SpeculativeDecoder ----


def decoder_of(sdo, ids, rows_of, **arguments):
    """A model of 7 tokens, and a draft that knows those of `ids`: its rows are the target's."""

    def target_rows(prefix, proposed):
        texts = [[*prefix, *proposed[:i]] for i in range(len(proposed) + 1)]
        return torch.stack([rows_of(text) for text in texts])

    def draft_step(prefix, k):
        tokens, rows = [], []
        for _ in range(k):
            rows.append(rows_of([*prefix, *tokens])[ids])
            tokens.append(int(ids[rows[-1].softmax(-1).multinomial(1)]))
        return tokens, torch.stack(rows)

    return sdo.SpeculativeDecoder(
        draft_step, target_rows, k=3, greedy=False, inputs="logits", **arguments
    )


def rows_of(text):
    g = torch.Generator().manual_seed(hash(tuple(text[-2:])) % 2**31)
    return torch.randn(7, generator=g)


def test_the_decoder_takes_a_reduced_draft_vocabulary(sdo):
    ids = torch.tensor([0, 2, 3, 6])
    torch.manual_seed(0)
    decoder = decoder_of(sdo, ids, rows_of, seed=3, method="token", draft_token_ids=ids)
    text = decoder.generate([1], max_new=400)
    assert set(text) == set(range(7))
    assert 0 < decoder.stats.accepted < decoder.stats.drafted
    unnamed = decoder_of(sdo, ids, rows_of, seed=3, method="token")
    torch.manual_seed(0)
    unnamed.generate([1], max_new=400)
    assert unnamed.stats.accepted < decoder.stats.accepted


def test_the_decoder_refuses_ids_that_it_cannot_use(sdo):
    step = decoder_of(sdo, torch.arange(7), rows_of).draft_step
    with pytest.raises(TypeError, match="draft_token_ids is a list, wanted a tensor"):
        sdo.SpeculativeDecoder(step, step, inputs="logits", draft_token_ids=[0])
    with pytest.raises(ValueError, match='draft_token_ids is given with inputs="probs"'):
        sdo.SpeculativeDecoder(step, step, draft_token_ids=torch.arange(7))
