# SPDX-License-Identifier: Apache-2.0
"""Calls as users write them, for a type checker alone: `make types`. Those that are wrong carry the
error they must give, and mypy complains of any that gives none."""

from collections.abc import Iterator
from typing import Any, Union

import spec_decode_ops as sdo
import torch
from spec_decode_ops.decoder import Committed
from spec_decode_ops.logprobs import Logprobs
from typing_extensions import assert_type

Drawn = Union[torch.Tensor, tuple[torch.Tensor, Logprobs]]
Verified = tuple[torch.Tensor, torch.Tensor]


def samples(x: torch.Tensor, flag: bool) -> None:
    assert_type(sdo.sample(x), torch.Tensor)
    assert_type(sdo.sample(x, 1, 50, 0.9, 0, 1.1, x, 7, 3, algorithm="sort"), torch.Tensor)
    assert_type(sdo.sample(x, x, x, x, x, x, seed=x, offset=x, validate=True), torch.Tensor)
    assert_type(sdo.sample(x, return_logprobs=True), tuple[torch.Tensor, Logprobs])
    assert_type(sdo.sample(x, return_logprobs=flag), Drawn)
    assert_type(sdo.sample(x, return_logprobs=True)[1].filtered, torch.Tensor)
    assert_type(sdo.filter_logits(x, temperature=0.5, top_k=5, prev_tokens=None), torch.Tensor)

    sdo.sample([0.0, 1.0])  # type: ignore[call-overload]
    sdo.sample(x, "0.8")  # type: ignore[call-overload]
    sdo.sample(x, top_k=0.5)  # type: ignore[call-overload]
    sdo.sample(x, prev_tokens=[1, 2])  # type: ignore[call-overload]
    sdo.sample(x, algorithm="radix")  # type: ignore[call-overload]
    sdo.sample(x, return_logprobs=True, seed=1.5)  # type: ignore[call-overload]
    sdo.sample(x, temprature=0.8)  # type: ignore[call-overload]
    sdo.filter_logits(x, seed=3)  # type: ignore[call-arg]
    sdo.filter_logits(x, top_p="0.9")  # type: ignore[arg-type]


def verifies(x: torch.Tensor, flag: bool) -> None:
    assert_type(sdo.verify(x, x, x), Verified)
    assert_type(sdo.verify(x, None, x, 0.8, 1, 5, top_k=9, method="coupled"), Verified)
    assert_type(sdo.verify(x, x, x, draft_token_ids=x, return_logprobs=False), Verified)
    accept_len, out, logprobs = sdo.verify(x, x, x, return_logprobs=True)
    assert_type(logprobs, Logprobs)
    sdo.verify(x, x, x, return_logprobs=flag)

    sdo.verify(x, x)  # type: ignore[call-overload]
    sdo.verify(x, x, [1, 2])  # type: ignore[call-overload]
    sdo.verify(x, x, x, method="tokens")  # type: ignore[call-overload]
    sdo.verify(x, x, x, 1.0, 0, 0, 50)  # type: ignore[call-overload]
    sdo.verify(x, x, x, offset=0.5, return_logprobs=True)  # type: ignore[call-overload]


def accepts(p: torch.Tensor, tokens: torch.Tensor) -> int:
    n, token = sdo.verify_greedy(p, tokens, validate=True)
    m, other = sdo.accept(p, None, tokens, torch.Generator(), normalized=True, method="block")
    sdo.accept(p, p, tokens, uniforms=p)

    sdo.verify_greedy(p)  # type: ignore[call-arg]
    sdo.verify_greedy(p, [1])  # type: ignore[arg-type]
    sdo.accept(p, p, tokens, 7)  # type: ignore[arg-type]
    sdo.accept(p, p, tokens, method="coupled")  # type: ignore[arg-type]
    sdo.accept(p, p, tokens, uniforms=[0.5])  # type: ignore[arg-type]
    return int(n) + int(m) + int(token) + int(other)


def draft_of_lists(prefix: list[int], k: int) -> tuple[list[int], None]:
    return prefix[-k:], None


def draft_of_tensors(prefix: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return prefix[-k:], torch.zeros(k, 9)


def target(prefix: list[int], proposed: list[int]) -> torch.Tensor:
    return torch.zeros(len(proposed) + 1, 9)


def shown(drafted: list[int], accepted: int, committed: list[int]) -> None: ...


def decodes(ids: torch.Tensor) -> None:
    decoder = sdo.SpeculativeDecoder(
        sdo.PromptLookup(longest=4),
        target,
        k=3,
        greedy=False,
        inputs="logits",
        method="token",
        eos_token_id={1, 2},
        stop=[[1, 2], (3, 4), ids],
        on_round=shown,
        target_rollback=lambda length: None,
    )
    assert_type(decoder.generate([1, 2, 3]), list[int])
    assert_type(decoder.generate(ids, max_new=5), torch.Tensor)
    assert_type(decoder.stream([1, 2]), Iterator[Committed])
    assert_type(decoder.stats, sdo.DecodeStats)
    assert_type(decoder.stats.acceptance_by_position, list[float])
    sdo.SpeculativeDecoder(draft_of_lists, target, eos_token_id=2)
    sdo.SpeculativeDecoder(draft_of_tensors, target, generator=torch.Generator())

    decoder.generate("text")  # type: ignore[call-overload]
    sdo.SpeculativeDecoder(target, target)  # type: ignore[arg-type]
    sdo.SpeculativeDecoder(draft_of_lists, draft_of_lists)  # type: ignore[arg-type]
    sdo.SpeculativeDecoder(draft_of_lists, target, inputs="logit")  # type: ignore[arg-type]
    sdo.SpeculativeDecoder(draft_of_lists, target, temperature=ids)  # type: ignore[arg-type]
    sdo.SpeculativeDecoder(draft_of_lists, target, stop=["end"])  # type: ignore[list-item]
    sdo.SpeculativeDecoder(draft_of_lists, target, on_round=target)  # type: ignore[arg-type]
    sdo.PromptLookup("3")  # type: ignore[arg-type]
    sdo.DecodeStats(rounds="3")  # type: ignore[arg-type]


def loops(x: torch.Tensor, processors: Any, model: Any) -> None:
    sampler = sdo.Sampler(0.8, top_p=x, seed=7)
    assert_type(sampler(x, x), torch.Tensor)
    assert_type(sdo.Sampler.from_processors(processors, seed=None, offset=3), sdo.Sampler)
    model.generate(x, custom_generate=sdo.spec_generate, stats=sdo.DecodeStats())
    sdo.spec_generate(model, x, None, None, None, method="token", k=3, use_cache=True)

    sdo.Sampler(seed="7")  # type: ignore[arg-type]
    sdo.Sampler(0.8, 0, 1.0, 0.0, 1.0, 7)  # type: ignore[call-arg]
    sampler([0.0])  # type: ignore[arg-type]
    sdo.spec_generate(model, x, None, None, None, method="block")  # type: ignore[arg-type]
    sdo.spec_generate(model, x, None, None, None, stats={})  # type: ignore[arg-type]
