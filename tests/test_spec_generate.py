# SPDX-License-Identifier: Apache-2.0
"""spec_generate inside transformers' `generate`, on Llamas of random weights: the text of plain
decoding, greedy and sampled, for any draft, batch and cache."""

import functools

import pytest
import torch
from tiny_llamas import PAD, VOCAB, padded_prompts, resembling, tiny_llama, transformers

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL = tiny_llama()
DRAFT = resembling(MODEL)
DRAFTS = {
    "resembling": {"assistant_model": DRAFT},
    "fixed": {"assistant_model": DRAFT, "adaptive_k": False, "k": 3},
    "other": {"assistant_model": tiny_llama(9, 1), "adaptive_k": False, "k": 4},
    "wider": {"assistant_model": tiny_llama(0, 1, VOCAB + 9), "adaptive_k": False, "k": 2},
    "lookup": {"prompt_lookup_num_tokens": 5, "adaptive_k": False},
    "none": {"k": 0},
}
LENGTHS = {1: [9], 4: [3, 9, 6, 1]}
CHAIN = {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.2}
NEW = 24


def plain(model, ids, mask, **options):
    return model.generate(ids, attention_mask=mask, max_new_tokens=NEW, pad_token_id=PAD, **options)


def speculative(sdo, model, ids, mask, **options):
    return plain(model, ids, mask, custom_generate=sdo.spec_generate, **options)


@functools.cache
def sampled(sdo, batch, seed, penalised):
    """One row after the other by `sample`, the noise by position in the row."""
    rows, chain = [], CHAIN if penalised else {}
    for b, (row, seen) in enumerate(zip(*padded_prompts(LENGTHS[batch]))):
        text = row[seen.bool()].tolist()
        for _ in range(NEW):
            with torch.inference_mode():
                logits = MODEL(torch.tensor([text])).logits[0, -1].expand(b + 1, -1)
            history = torch.tensor(text).expand(b + 1, -1)
            # Row b of a batch draws from noise stream b.
            token = sdo.sample(logits, seed=seed, offset=len(text), prev_tokens=history, **chain)[b]
            text.append(int(token))
        rows.append(text[-NEW:])
    return torch.tensor(rows)


@functools.cache
def greedy(batch, eos_token_id, repetition_penalty):
    ids, mask = padded_prompts(LENGTHS[batch])
    options = {"repetition_penalty": repetition_penalty} if repetition_penalty else {}
    eos = list(eos_token_id) if eos_token_id else None
    return plain(MODEL, ids, mask, do_sample=False, eos_token_id=eos, **options)


@pytest.mark.parametrize("batch", LENGTHS)
@pytest.mark.parametrize(
    ("draft", "cache"),
    [*((draft, None) for draft in DRAFTS), ("fixed", "static"), ("lookup", "static")],
)
@pytest.mark.parametrize("options", [{}, {"eos_token_id": (7, 8)}, {"repetition_penalty": 1.3}])
def test_greedy_output_is_that_of_generate(sdo, options, cache, draft, batch):
    ids, mask = padded_prompts(LENGTHS[batch])
    expected = greedy(batch, options.get("eos_token_id"), options.get("repetition_penalty"))
    options = {key: list(v) if key == "eos_token_id" else v for key, v in options.items()}
    stats = sdo.DecodeStats()
    out = speculative(
        sdo, MODEL, ids, mask, stats=stats, do_sample=False, cache_implementation=cache,
        **options, **DRAFTS[draft],
    )  # fmt: skip
    assert torch.equal(out, expected)
    if draft == "fixed":
        assert 0 < stats.accepted < stats.drafted
        assert stats.target_calls < out.shape[1] - ids.shape[1]


@pytest.mark.parametrize("batch", LENGTHS)
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("chain", [{}, CHAIN])
def test_sampled_output_is_that_of_sample_with_the_same_seed(sdo, chain, draft, batch):
    ids, mask = padded_prompts(LENGTHS[batch])
    stats = sdo.DecodeStats()
    out = speculative(
        sdo, MODEL, ids, mask, do_sample=True, seed=11, stats=stats, **chain, **DRAFTS[draft],
        **({} if "top_k" in chain else {"top_k": 0}),
    )  # fmt: skip
    assert torch.equal(out[:, ids.shape[1] :], sampled(sdo, batch, 11, bool(chain)))
    if draft == "fixed":
        assert stats.accepted > 0.6 * stats.rounds  # the draft draws with the target's noise


def test_fifty_prompts_give_the_greedy_text_at_batch_1_and_4(sdo):
    lengths, new = [2 + i % 9 for i in range(50)], 12
    ids, mask = padded_prompts(lengths, seed=3)
    options = {"pad_token_id": PAD, "max_new_tokens": new, "do_sample": False}
    expected = MODEL.generate(ids, attention_mask=mask, **options)[:, -new:]
    options["custom_generate"] = sdo.spec_generate
    for batch, draft in ((1, "lookup"), (4, "fixed")):
        for first in range(0, 50, batch):
            part = slice(first, first + batch)
            rows = mask[part].any(0)  # without the padding that all rows share
            inputs = {"inputs": ids[part][:, rows], "attention_mask": mask[part][:, rows]}
            out = MODEL.generate(**inputs, **options, **DRAFTS[draft])
            assert torch.equal(out[:, -new:], expected[part])


def test_seeds_of_rows_make_a_text_independent_of_its_place(sdo):
    ids, mask = padded_prompts(LENGTHS[4])
    seeds = torch.tensor([5, -1, 7, 2**62])
    options = {"do_sample": True, "assistant_model": DRAFT}
    out = speculative(sdo, MODEL, ids, mask, seed=seeds, **options)
    order = torch.tensor([2, 0, 3, 1])
    moved = speculative(sdo, MODEL, ids[order], mask[order], seed=seeds[order], **options)
    assert torch.equal(out[order], moved)
    alone = speculative(sdo, MODEL, ids[1:2], mask[1:2], seed=seeds[1:2], **options)
    assert torch.equal(alone, out[1:2])


def test_torch_manual_seed_rules_where_no_seed_is_given(sdo):
    ids, mask = padded_prompts([6])
    texts = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        texts.append(speculative(sdo, MODEL, ids, mask, do_sample=True, prompt_lookup_num_tokens=4))
    assert torch.equal(texts[0], texts[1])
    assert not torch.equal(texts[0], texts[2])


def test_an_explicit_seed_and_greedy_decoding_touch_no_generator(sdo):
    ids, mask = padded_prompts([6])
    before = torch.get_rng_state()
    speculative(sdo, MODEL, ids, mask, do_sample=True, seed=1, prompt_lookup_num_tokens=4)
    speculative(sdo, MODEL, ids, mask, do_sample=False, prompt_lookup_num_tokens=4)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("batch", LENGTHS)
def test_a_stopping_criterion_cuts_each_row_inside_a_round(sdo, batch):
    class SumIsRound(transformers.StoppingCriteria):
        """True where the last two tokens add up to a multiple of 5."""

        def __call__(self, input_ids, scores, **_):
            return input_ids[:, -2:].sum(1) % 5 == 0

    ids, mask = padded_prompts(LENGTHS[batch])
    options = {
        "do_sample": False,
        "eos_token_id": 7,
        "stopping_criteria": transformers.StoppingCriteriaList([SumIsRound()]),
    }
    out = speculative(sdo, MODEL, ids, mask, **options, **DRAFTS["fixed"])
    assert torch.equal(out, plain(MODEL, ids, mask, **options))


def test_every_new_token_is_streamed_once_and_in_order(sdo):
    class Heard:
        def __init__(self):
            self.tokens, self.ended = [], False

        def put(self, value):
            self.tokens += value.flatten().tolist()

        def end(self):
            self.ended = True

    ids, mask = padded_prompts([9])
    heard, again = Heard(), Heard()
    out = speculative(sdo, MODEL, ids, mask, streamer=heard, **DRAFTS["fixed"])
    assert heard.tokens == out[0].tolist()
    assert heard.ended
    # What `generate` keeps to itself can be bound instead.
    generate = functools.partial(sdo.spec_generate, assistant_model=DRAFT, streamer=again)
    assert torch.equal(plain(MODEL, ids, mask, custom_generate=generate), out)
    assert again.tokens == out[0, 9:].tolist()


def test_a_cache_that_is_given_is_left_right_and_can_go_on(sdo):
    ids, mask = padded_prompts([9])
    cache = transformers.DynamicCache(config=MODEL.config)
    whole = plain(MODEL, ids, mask, do_sample=False)
    options = {"do_sample": False, "custom_generate": sdo.spec_generate, **DRAFTS["fixed"]}
    first = MODEL.generate(
        ids, max_new_tokens=17, cache=cache, return_dict_in_generate=True, **options
    )
    assert first.cache is cache
    assert cache.get_seq_length() == 9 + 17 - 1
    rest = MODEL.generate(
        first.sequences,
        attention_mask=torch.ones_like(first.sequences),  # the text may hold the padding's id
        max_new_tokens=NEW - 17,
        cache=cache,
        **options,
    )
    assert torch.equal(rest, whole)


@pytest.mark.parametrize("window", [4, 16])
def test_a_sliding_window_works_for_one_row(sdo, window):
    torch.manual_seed(0)
    config = transformers.MistralConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        sliding_window=window,
        pad_token_id=PAD,
        eos_token_id=None,
    )
    model = transformers.MistralForCausalLM(config).eval()
    ids, mask = padded_prompts([9])
    out = speculative(sdo, model, ids, mask, assistant_model=resembling_mistral(model))
    assert torch.equal(out, plain(model, ids, mask))


def resembling_mistral(model):
    draft = transformers.MistralForCausalLM(model.config).eval()
    draft.load_state_dict(model.state_dict())
    with torch.no_grad():
        draft.lm_head.weight += 0.02
    return draft


def test_holes_in_a_batch_cache_are_moved_out_and_nothing_changes(sdo, monkeypatch):
    import sys

    cached_rows = sys.modules[sdo.__name__ + "._cached_rows"]
    moved, move = [], cached_rows.CachedRows._move_holes_out
    monkeypatch.setattr(
        cached_rows.CachedRows, "_move_holes_out", lambda self: moved.append(1) or move(self)
    )
    monkeypatch.setattr(cached_rows, "FEW_HOLES", 0)
    ids, mask = padded_prompts(LENGTHS[4])
    out = speculative(sdo, MODEL, ids, mask, do_sample=False, **DRAFTS["fixed"])
    assert moved
    assert torch.equal(out, plain(MODEL, ids, mask, do_sample=False))


def test_the_token_rule_accepts_and_repeats_with_its_seed(sdo):
    ids, mask = padded_prompts(LENGTHS[4])
    stats = [sdo.DecodeStats() for _ in range(2)]
    texts = [
        speculative(
            sdo, MODEL, ids, mask, do_sample=True, seed=3, method="token", stats=each, **CHAIN,
            **DRAFTS["fixed"],
        )
        for each in stats
    ]  # fmt: skip
    assert torch.equal(*texts)
    assert 0 < stats[0].accepted < stats[0].drafted
    assert stats[0].emitted == 4 * NEW
