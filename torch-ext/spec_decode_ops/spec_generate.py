# SPDX-License-Identifier: Apache-2.0
"""spec_generate: speculative decoding inside transformers' `generate`, for batches too."""

import sys
import time
from typing import Any, Literal, Optional, Union

import torch

from . import _callbacks, _generation_options
from ._arguments import Integer
from ._batch import Batch, Drawing
from ._batch_drafts import Drafts, LookupDrafts, ModelDrafts
from ._cached_rows import CachedRows, padded, reading
from ._draft_length import AdaptiveLength, FixedLength
from .stats import DecodeStats
from .verify import verify

_NAME = "spec_generate"


def spec_generate(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    assistant_model: Any = None,
    streamer: Any = None,
    seed: Optional[Integer] = None,
    method: Literal["coupled", "token"] = "coupled",
    k: Optional[int] = None,
    adaptive_k: bool = True,
    stats: Optional[DecodeStats] = None,
    **model_kwargs: Any,
) -> Any:
    """The decoding loop of transformers' `generate`, by speculation:

        model.generate(**inputs, custom_generate=spec_generate, assistant_model=draft)
        model.generate(**inputs, custom_generate=spec_generate, prompt_lookup_num_tokens=10)

    Any batch size with padding on the left, greedy or do_sample=True, with the generation config's
    repetition_penalty, temperature, top_k, top_p and min_p, which are applied to both models;
    attention_mask, eos_token_id, max_length and max_new_tokens, stopping criteria (asked about one
    row at a time, after each of its tokens), dynamic and static caches (nothing is compiled), and
    for one row a streamer. Greedy and coupled output is that of plain decoding, whatever the draft,
    k and adaptation, as far as the model's own logits do not depend on how many tokens it reads at
    once.

    Arguments of its own, given to `generate`:
        seed: any int: row b draws from noise stream b, for the token at position i of its text
            (padding does not count) at offset i, as `sample(logits, ..., seed=seed, offset=i)`; or
            an int64 tensor [B], with which a row's text does not depend on its place in the batch.
            None takes one from torch's default generator.
        method: how sampled tokens are verified, "coupled" or "token", as in `verify`.
        k: draft tokens a round, at most. None: prompt_lookup_num_tokens, or num_assistant_tokens
            of the assistant's generation config; 0 is plain decoding.
        adaptive_k: draft as many tokens as pay, by measured acceptance and seconds.
        stats: a DecodeStats to count in.

    assistant_model and streamer are read from `generate` itself, which keeps them from a callable
    (transformers 5.24); `functools.partial(spec_generate, assistant_model=draft)` passes them too.

    Returns:
        int64 [B, length] with the prompt, rows that ended earlier padded with pad_token_id; with
        return_dict_in_generate=True a GenerateDecoderOnlyOutput, for one row with its cache.

    Raises:
        ValueError: an option is not supported; the text names it.
    """
    kept = _kept_by_generate(sys._getframe(1))
    assistant_model = kept.get("assistant_model") if assistant_model is None else assistant_model
    streamer = kept.get("streamer") if streamer is None else streamer
    rows, cache_name = len(input_ids), _cache_name(model_kwargs)
    _generation_options.check(_NAME, model, generation_config, model_kwargs, cache_name)
    if streamer is not None and rows > 1:
        raise ValueError(f"{_NAME}: streamer is given with a batch of {rows} rows, wanted 1")
    if method not in ("token", "coupled"):
        raise ValueError(f'{_NAME}: method is {method!r}, wanted "token" or "coupled"')

    cache, mask = model_kwargs[cache_name], model_kwargs.get("attention_mask")
    held = int(cache.get_seq_length())
    batch = Batch(
        input_ids,
        _generation_options.padding(_NAME, input_ids, mask, model_kwargs.get("position_ids"), held),
        generation_config.max_length,
        generation_config._pad_token_tensor,
        _generation_options.Ends(stopping_criteria),
    )
    filters = _generation_options.filters(_NAME, logits_processor)
    drawing = Drawing(filters, generation_config.do_sample, method == "coupled", seed, batch)
    k = _most_drafts(k, generation_config, assistant_model)
    loop = _Loop(
        batch,
        drawing,
        CachedRows(model, cache, rows, held, cache_name),
        _drafts(k, rows, generation_config, assistant_model),
        k,
        AdaptiveLength(k) if adaptive_k else FixedLength(),
        DecodeStats() if stats is None else stats,
    )
    while batch.unfinished():
        for token in loop.round()[0]:
            if streamer is not None:
                streamer.put(torch.tensor([token]))
    if streamer is not None:
        streamer.end()
    if not generation_config.return_dict_in_generate:
        return batch.sequences()
    from transformers.generation import GenerateDecoderOnlyOutput

    return GenerateDecoderOnlyOutput(
        sequences=batch.sequences(), cache=cache if rows == 1 else None
    )


class _Loop:
    """Rounds of draft, target and verification, of all rows that have not ended."""

    def __init__(self, batch, drawing, target, drafts, k, length, stats):
        self.batch = batch
        self.drawing = drawing
        self.target = target
        self.drafts = drafts
        self.k = k
        self.length = length
        self.stats = stats

    def round(self) -> list[list[int]]:
        """The tokens that a round adds to each row's text."""
        start, batch = time.perf_counter(), self.batch
        begins = batch.begins(self.target.held(), batch.texts)
        limits = self._limits(begins)
        plan = self.length.plan(max(limits))
        asked = [min(plan.ask, limit) for limit in limits]
        proposal = self.drafts.propose(batch, self.drawing, asked) if plan.ask else _none(limits)
        drafts = proposal if plan.use else _none(limits)
        width = max(map(len, drafts.tokens))
        drafted = time.perf_counter()
        rows = self.target.read(reading(batch.texts, begins, drafts.tokens), width + 1)
        read = time.perf_counter()
        accepted, emitted = self._verify(rows, drafts)
        verified = time.perf_counter()

        longest = max(map(len, proposal.tokens))
        self.length.add_times(longest, width, drafted - start, verified - drafted)
        self.stats.add_target_call(start, drafted, read, verified)
        going_on = [b for b, left in enumerate(batch.left) if left]
        added: list[list[int]] = [[] for _ in begins]
        for b in going_on:
            n = len(drafts.tokens[b])
            self.length.add_acceptance(n, accepted[b])
            if not plan.use:
                self.length.watch(proposal.tokens[b], emitted[b], b)
            added[b] = self._commit(b, accepted[b], emitted[b])
            self.stats.add_round(n, min(accepted[b], len(added[b])), len(added[b]))
        self._roll_back()
        return added

    def _limits(self, begins: list[int]) -> list[int]:
        """How many draft tokens each row can use: one less than it may still get, as the target
        adds one; and no more than there are slots for."""
        batch = self.batch
        unread = max(len(text) - begin for text, begin in zip(batch.texts, begins))
        most = max(0, min(self.k, self.target.room() - unread))
        return [min(most, left - 1) if left else 0 for left in batch.left]

    def _verify(self, rows, drafts: Drafts) -> tuple[list[int], list[list[int]]]:
        """For each row how many draft tokens are accepted; these and the target's own token."""
        tokens = padded(drafts.tokens, -1)
        accept_len, out = verify(
            rows,
            None if drafts.logits is None else drafts.logits.to(rows.device),
            tokens.to(rows.device),
            method="coupled" if self.drawing.coupled else "token",
            **self.drawing.arguments(self.batch.texts, rows.device),
        )
        self.drawing.round_offset += tokens.shape[1] + 1
        accepted = accept_len.tolist()
        return accepted, [row[: n + 1] for row, n in zip(out.tolist(), accepted)]

    def _commit(self, b: int, accepted: int, emitted: list[int]) -> list[int]:
        if emitted[-1] < 0:
            position = len(self.batch.texts[b]) + accepted
            raise ValueError(f"{_NAME}: row {b} has no finite logit for position {position}")
        return self.batch.extend(b, emitted)

    def _roll_back(self) -> None:
        """What either model read beyond a text's last token but one was rejected. A row that has
        ended needs nothing, but the cache of a single row is left right."""
        batch = self.batch
        kept = [len(text) - 1 if left else 0 for text, left in zip(batch.texts, batch.left)]
        if len(kept) == 1:
            kept = [len(batch.texts[0]) - 1]
        self.target.cut(kept)
        self.drafts.cut(kept)
        if not batch.unfinished():
            self.stats.finish_reason = batch.finish_reason


def _none(rows: list) -> Drafts:
    return Drafts([[] for _ in rows])


def _kept_by_generate(caller) -> dict:
    """The arguments that `generate` does not pass to a callable, if the caller is `generate`."""
    return caller.f_locals if caller.f_code.co_name == "generate" else {}


def _cache_name(model_kwargs: dict) -> str:
    """What this version of transformers calls the cache."""
    for name in ("cache", "past_key_values"):
        if model_kwargs.get(name) is not None:
            return name
    raise ValueError(f"{_NAME}: there is no cache, wanted use_cache=True and a model that has one")


def _most_drafts(k: Any, config: Any, assistant: Any) -> int:
    lookup = config.prompt_lookup_num_tokens
    if k is not None:
        k = _callbacks.count(_NAME, "k", k)
    elif lookup is not None:
        k = _callbacks.count(_NAME, "prompt_lookup_num_tokens", lookup)
    elif assistant is not None:
        k = assistant.generation_config.num_assistant_tokens or config.num_assistant_tokens or 20
    if lookup is not None and assistant is not None:
        raise ValueError(
            f"{_NAME}: assistant_model and prompt_lookup_num_tokens are given, wanted one of them"
        )
    if k != 0 and lookup is None and assistant is None:
        raise ValueError(
            f"{_NAME}: there is no draft, wanted assistant_model or prompt_lookup_num_tokens (or "
            "k=0 for plain decoding)"
        )
    return k


def _drafts(k: int, rows: int, config: Any, assistant: Any) -> Union[LookupDrafts, ModelDrafts]:
    if k == 0 or assistant is None:
        return LookupDrafts(rows, config.max_matching_ngram_size or 3)
    if assistant.config.is_encoder_decoder:
        raise ValueError(f"{_NAME}: assistant_model is an encoder-decoder, which is not supported")
    from transformers import DynamicCache

    cache = DynamicCache(config=assistant.config.get_text_config(decoder=True))
    return ModelDrafts(CachedRows(assistant, cache, rows))
