# SPDX-License-Identifier: Apache-2.0
"""sample and filter_logits: from logits to tokens, and what sampling is restricted to."""

from typing import Literal, Optional, Union, overload

import torch
from torch import Tensor

from . import _arguments, _validation, logprobs
from ._arguments import MAYBE_TENSOR, OFF, Algorithm, Integer, Real, are_numbers
from ._ops import add_op_namespace_prefix, ops
from .logprobs import Logprobs

_sample_numbers, _filter_numbers = ops.sample.numbers, ops.filter_logits.numbers


@overload
def sample(
    logits: torch.Tensor,
    temperature: Real = ...,
    top_k: Integer = ...,
    top_p: Real = ...,
    min_p: Real = ...,
    repetition_penalty: Real = ...,
    prev_tokens: Optional[torch.Tensor] = ...,
    seed: Optional[Integer] = ...,
    offset: Integer = ...,
    *,
    algorithm: Algorithm = ...,
    validate: bool = ...,
    return_logprobs: Literal[False] = ...,
) -> torch.Tensor: ...


@overload
def sample(
    logits: torch.Tensor,
    temperature: Real = ...,
    top_k: Integer = ...,
    top_p: Real = ...,
    min_p: Real = ...,
    repetition_penalty: Real = ...,
    prev_tokens: Optional[torch.Tensor] = ...,
    seed: Optional[Integer] = ...,
    offset: Integer = ...,
    *,
    algorithm: Algorithm = ...,
    validate: bool = ...,
    return_logprobs: Literal[True],
) -> tuple[torch.Tensor, Logprobs]: ...


@overload
def sample(
    logits: torch.Tensor,
    temperature: Real = ...,
    top_k: Integer = ...,
    top_p: Real = ...,
    min_p: Real = ...,
    repetition_penalty: Real = ...,
    prev_tokens: Optional[torch.Tensor] = ...,
    seed: Optional[Integer] = ...,
    offset: Integer = ...,
    *,
    algorithm: Algorithm = ...,
    validate: bool = ...,
    return_logprobs: bool,
) -> Union[torch.Tensor, tuple[torch.Tensor, Logprobs]]: ...


def sample(
    logits: torch.Tensor,
    temperature: Real = 1.0,
    top_k: Integer = 0,
    top_p: Real = 1.0,
    min_p: Real = 0.0,
    repetition_penalty: Real = 1.0,
    prev_tokens: Optional[torch.Tensor] = None,
    seed: Optional[Integer] = None,
    offset: Integer = 0,
    *,
    algorithm: Algorithm = "auto",
    validate: bool = False,
    return_logprobs: bool = False,
) -> Union[torch.Tensor, tuple[torch.Tensor, Logprobs]]:
    """Draw one token a row: penalty -> temperature -> top-k -> top-p -> min-p -> Gumbel-argmax.

    The token is a pure function of the logits' values, the parameters, seed, offset and row stream:
    the same on every device, instruction set, thread count, batch order and memory layout.

    Args:
        logits: float32, float16 or bfloat16 [B, V] or [V], 1 <= V <= 2**20, the last dimension
            contiguous, any other strides and alignment. NaN counts as -inf. +inf entries share
            their row.
        temperature: divides the logits; <= 0 takes the first maximum.
        top_k: keep every token equal to the k-th largest or above; off if <= 0 or >= V.
        top_p: keep a token while the mass before it is under top_p (Holtzman et al. 2020); off
            from 1 on.
        min_p: keep p >= min_p * p_max (Nguyen et al. 2024); off up to 0.
        repetition_penalty: x < 0 ? x * r : x / r once for each distinct id of prev_tokens (Keskar
            et al. 2019); off at 1.
        prev_tokens: int64 [B, L] or [L]; ids outside [0, V) are padding.
        seed: any int, taken mod 2**64; None takes one from torch's default generator, but where
            temperature is a number <= 0, which draws nothing.
        offset: 0 <= offset < 2**60; give each step its own, or it draws the same noise again.
        algorithm: how a GPU gets there: "sort", "select" without a sort, or "auto", the one that
            ought to be quicker. The tokens are the same. A CPU has one way, whatever is asked for.
        validate: also raise ValueError on NaN, empty rows and ids outside [0, V).
        return_logprobs: also return how likely the token was. One pass over the logits more, and
            where a filter is on, what it takes to find its kept tokens again.

    Each parameter from temperature to repetition_penalty, and seed and offset, may be a tensor [1]
    or [B] on the logits' device (0-d counts as [1]): float32 (top_p and min_p also float64), int64
    for top_k, seed and offset. Entries without meaning count as off. A scalar or [1] seed gives row
    b the noise stream b; a [B] seed gives every row stream 0, so that its draw does not depend on
    its place.

    Returns:
        int64 [B], or a 0-d tensor for [V] logits; -1 for a row with no finite or +inf logit.
        With return_logprobs: (token, Logprobs), whose `filtered` and `unfiltered` are float32 of
        the token's shape (see logprobs.py).

    Raises:
        ValueError, TypeError: a Python parameter has no meaning.
        RuntimeError: a tensor has the wrong dtype, shape, stride or device; in a compiled graph
            also a number without meaning.
    """
    filters = top_k, top_p, min_p, repetition_penalty
    if (
        algorithm == "auto"
        and not (validate or return_logprobs)
        and isinstance(logits, Tensor)
        and isinstance(prev_tokens, MAYBE_TENSOR)
        and are_numbers(temperature, top_k, top_p, min_p, repetition_penalty, seed, offset)
    ):
        try:
            if prev_tokens is None and filters == OFF:
                return _sample_numbers(logits, temperature, seed, offset)
            return _sample_numbers(logits, temperature, seed, offset, *filters, prev_tokens)
        except RuntimeError:
            pass  # the long way says what is wrong
    _arguments.tensor("sample", "logits", logits)
    chain = _arguments.chain("sample", temperature, *filters, prev_tokens)
    seed, offset, places = _arguments.noise("sample", seed, offset, temperature, logits.device)
    algorithm = _arguments.algorithm("sample", algorithm)
    rest = chain.temperature, seed, offset, *chain.filters, algorithm, *chain.tensors, *places
    if validate:
        ops.sample.check(logits, *rest)
        _validate("sample", logits, prev_tokens)
    token = ops.sample.default(logits, *rest)
    if return_logprobs:
        return token, logprobs.of_tokens(logits, token, chain, algorithm)
    return token


def filter_logits(
    logits: torch.Tensor,
    temperature: Real = 1.0,
    top_k: Integer = 0,
    top_p: Real = 1.0,
    min_p: Real = 0.0,
    repetition_penalty: Real = 1.0,
    prev_tokens: Optional[torch.Tensor] = None,
    *,
    algorithm: Algorithm = "auto",
    validate: bool = False,
) -> torch.Tensor:
    """The logits that `sample` draws from: x / temperature where a token is kept, -inf elsewhere.

    It is what the eager chain of transformers' logits processors gives, in one pass; `sample(x,
    ...)` is bit for bit the draw over `filter_logits(x, ...)`. Of a greedy row (temperature <= 0)
    the first maximum is kept at its own value.

    Arguments and errors are those of `sample`.

    Returns:
        float32 [B, V], or [V] for [V] logits. Like an argmax it has no gradient.
    """
    filters = top_k, top_p, min_p, repetition_penalty
    if (
        algorithm == "auto"
        and not validate
        and isinstance(logits, Tensor)
        and isinstance(prev_tokens, MAYBE_TENSOR)
        and are_numbers(temperature, top_k, top_p, min_p, repetition_penalty)
    ):
        try:
            return _filter_numbers(logits, temperature, *filters, prev_tokens)
        except RuntimeError:
            pass  # the long way says what is wrong
    _arguments.tensor("filter_logits", "logits", logits)
    chain = _arguments.chain("filter_logits", temperature, *filters, prev_tokens)
    algorithm = _arguments.algorithm("filter_logits", algorithm)
    rest = chain.temperature, *chain.filters, algorithm, *chain.tensors
    if validate:
        ops.filter_logits.check(logits, *rest)
        _validate("filter_logits", logits, prev_tokens)
    return ops.filter_logits.default(logits, *rest)


def _validate(op, logits, prev_tokens):
    _validation.logits(op, "logits", logits)
    if prev_tokens is not None:
        _validation.tokens(op, "prev_tokens", prev_tokens, logits.shape[-1])


@torch.library.register_fake(add_op_namespace_prefix("sample"))
@torch.library.register_fake(add_op_namespace_prefix("sample.numbers"))
def _sample_fake(logits, *rest):
    _arguments.require_one_device("sample", logits, *rest)
    return logits.new_empty(logits.shape[:-1], dtype=torch.int64)


@torch.library.register_fake(add_op_namespace_prefix("filter_logits"))
@torch.library.register_fake(add_op_namespace_prefix("filter_logits.numbers"))
def _filter_logits_fake(logits, *rest):
    _arguments.require_one_device("filter_logits", logits, *rest)
    return logits.new_empty(logits.shape, dtype=torch.float32)
