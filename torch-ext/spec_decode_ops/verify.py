# SPDX-License-Identifier: Apache-2.0
"""verify, verify_greedy and accept: which draft tokens stand, and the token that follows them."""

from typing import Literal, Optional, Union, overload

import torch
from torch import Tensor
from torch.compiler import is_compiling

from . import _arguments, _draft_vocabulary, _validation, logprobs
from ._arguments import MAYBE_TENSOR, OFF, Algorithm, Integer, Real, are_numbers
from ._ops import add_op_namespace_prefix, ops
from ._verdicts import Verdict
from .logprobs import Logprobs

_METHODS = ("token", "block", "coupled")  # as schemas count their `rule`
_TOKEN_RULE = _METHODS.index("token")
_verify_numbers = ops.verify.numbers
_greedy_numbers, _greedy_tensors = ops.verify_greedy.default, ops.verify_greedy.tensors
_accept_numbers, _accept_tensors = ops.accept.default, ops.accept.tensors


@overload
def verify(
    target_logits: torch.Tensor,
    draft_logits: Optional[torch.Tensor],
    draft_tokens: torch.Tensor,
    temperature: Real = ...,
    seed: Optional[Integer] = ...,
    offset: Integer = ...,
    *,
    top_k: Integer = ...,
    top_p: Real = ...,
    min_p: Real = ...,
    repetition_penalty: Real = ...,
    prev_tokens: Optional[torch.Tensor] = ...,
    method: Literal["token", "block", "coupled"] = ...,
    algorithm: Algorithm = ...,
    validate: bool = ...,
    return_logprobs: Literal[False] = ...,
    draft_token_ids: Optional[torch.Tensor] = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...


@overload
def verify(
    target_logits: torch.Tensor,
    draft_logits: Optional[torch.Tensor],
    draft_tokens: torch.Tensor,
    temperature: Real = ...,
    seed: Optional[Integer] = ...,
    offset: Integer = ...,
    *,
    top_k: Integer = ...,
    top_p: Real = ...,
    min_p: Real = ...,
    repetition_penalty: Real = ...,
    prev_tokens: Optional[torch.Tensor] = ...,
    method: Literal["token", "block", "coupled"] = ...,
    algorithm: Algorithm = ...,
    validate: bool = ...,
    return_logprobs: Literal[True],
    draft_token_ids: Optional[torch.Tensor] = ...,
) -> tuple[torch.Tensor, torch.Tensor, Logprobs]: ...


@overload
def verify(
    target_logits: torch.Tensor,
    draft_logits: Optional[torch.Tensor],
    draft_tokens: torch.Tensor,
    temperature: Real = ...,
    seed: Optional[Integer] = ...,
    offset: Integer = ...,
    *,
    top_k: Integer = ...,
    top_p: Real = ...,
    min_p: Real = ...,
    repetition_penalty: Real = ...,
    prev_tokens: Optional[torch.Tensor] = ...,
    method: Literal["token", "block", "coupled"] = ...,
    algorithm: Algorithm = ...,
    validate: bool = ...,
    return_logprobs: bool,
    draft_token_ids: Optional[torch.Tensor] = ...,
) -> Union[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, Logprobs]]: ...


def verify(
    target_logits: torch.Tensor,
    draft_logits: Optional[torch.Tensor],
    draft_tokens: torch.Tensor,
    temperature: Real = 1.0,
    seed: Optional[Integer] = None,
    offset: Integer = 0,
    *,
    top_k: Integer = 0,
    top_p: Real = 1.0,
    min_p: Real = 0.0,
    repetition_penalty: Real = 1.0,
    prev_tokens: Optional[torch.Tensor] = None,
    method: Literal["token", "block", "coupled"] = "token",
    algorithm: Algorithm = "auto",
    validate: bool = False,
    return_logprobs: bool = False,
    draft_token_ids: Optional[torch.Tensor] = None,
) -> Union[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, Logprobs]]:
    """Verify k draft tokens a row against the target, from logits.

    method="token" is speculative sampling (Leviathan et al. 2023, algorithm 1; Chen et al. 2023,
    algorithm 2): draft token t is accepted while u * q(t) < p(t); at the first failure the token is
    drawn from max(p - q, 0), and with all accepted from the target's last row. The emitted stream
    is distributed exactly as the target's.

    method="block" (Sun et al. 2024) tests the draft as a whole: as many tokens stand as the last of
    k tests to pass says, and the token after them comes from a residual that knows how likely they
    were. Same distribution, and never fewer tokens in the mean; all k + 1 rows but the last are
    read. A deterministic draft (draft_logits=None) is verified as by the token rule, which has the
    same law there. Drafts must be drawn with fresh noise in each round: noise that belongs to a
    position, used again when the position is drafted again, is exact for "token" and biased here.

    method="coupled" (Daliri et al. 2024): position i emits sample(target_logits[:, i], ..., seed,
    offset + i) and goes on while that is the draft token. With offset the position in the text, the
    output equals plain sampling token for token, for any draft. draft_logits are not read.

    Args:
        target_logits: float32, float16 or bfloat16 [B, k + 1, V], last dimension contiguous.
        draft_logits: the same [B, k, Vd], its dtype its own; the law the draft tokens were really
            drawn from, before temperature and filters. A narrower vocabulary has q = 0 beyond it,
            and a token that only a wider one has is rejected, as p = 0 there.
            None: a deterministic draft (greedy, n-gram), of which every token has q = 1.
        draft_tokens: int64 [B, k]. An id that is -1, in neither vocabulary or has q = 0 ends its
            row's draft: the token there is drawn from p.
        temperature: divides both models' logits; <= 0 accepts while the draft token is the first
            maximum of the target.
        seed, offset: as in `sample`; a round of k drafts takes the offsets offset .. offset + k.
        top_k, top_p, min_p, repetition_penalty, prev_tokens: the filters of `sample`, applied to
            both models; position i also sees draft_tokens[:, :i] as history.
        algorithm: as in `sample`.
        validate: also raise ValueError on NaN, empty rows and ids outside the vocabulary.
        return_logprobs: also return how likely the emitted tokens were under the target. As in
            `sample`, for each emitted token.
        draft_token_ids: int64 [Vd], strictly increasing in [0, V): column j of draft_logits is
            target token draft_token_ids[j], as in a reduced draft vocabulary (EAGLE-3's). None:
            column j is token j. draft_tokens and prev_tokens are target ids either way. All rows of
            the draft are copied to the target's width for it: on a CPU core, with k = 4 and 32,000
            ids of V = 128256, a call of 0.2 ms takes 0.9.

    Parameters may be tensors as in `sample`.

    Returns:
        accept_len int64 [B] and out int64 [B, k + 1]: out[b, :accept_len[b] + 1] are the tokens
        emitted, the rest is -1. With return_logprobs: (accept_len, out, Logprobs), whose `filtered`
        and `unfiltered` are float32 [B, k + 1] beside out, NaN where that is -1.

    Raises:
        ValueError, TypeError: a Python parameter has no meaning.
        RuntimeError: a tensor has the wrong dtype, shape, stride or device; in a compiled graph
            also a number without meaning.
    """
    rule = _rule("verify", method, _METHODS)
    filters = top_k, top_p, min_p, repetition_penalty
    rows = target_logits, draft_logits, draft_tokens
    if (
        algorithm == "auto"
        and not (validate or return_logprobs)
        and draft_token_ids is None
        and isinstance(target_logits, Tensor)
        and isinstance(draft_logits, MAYBE_TENSOR)
        and isinstance(draft_tokens, Tensor)
        and isinstance(prev_tokens, MAYBE_TENSOR)
        and are_numbers(temperature, top_k, top_p, min_p, repetition_penalty, seed, offset)
    ):
        try:
            if prev_tokens is None and filters == OFF:
                return _verify_numbers(*rows, temperature, seed, offset, rule)
            return _verify_numbers(*rows, temperature, seed, offset, rule, *filters, prev_tokens)
        except RuntimeError:
            pass  # the long way says what is wrong
    _arguments.tensor("verify", "target_logits", target_logits)
    _arguments.tensor("verify", "draft_tokens", draft_tokens)
    if draft_logits is not None:
        _arguments.tensor("verify", "draft_logits", draft_logits)
    chain = _arguments.chain("verify", temperature, *filters, prev_tokens)
    device = target_logits.device
    seed, offset, places = _arguments.noise("verify", seed, offset, temperature, device)
    algorithm = _arguments.algorithm("verify", algorithm)
    tensors = *chain.tensors, *places
    rest = chain.temperature, seed, offset, rule, *chain.filters, algorithm, *tensors
    if validate or draft_token_ids is not None:
        ops.verify.check(*rows, *rest)
    if draft_token_ids is not None:
        vocab = target_logits.shape[-1]
        _draft_vocabulary.check("verify", draft_token_ids, draft_logits, vocab, validate)
    if validate:
        _validate(*rows, prev_tokens)
    if draft_token_ids is not None and method != "coupled":
        draft_logits = _draft_vocabulary.widened(draft_logits, draft_token_ids, vocab)
    accept_len, out = ops.verify.default(target_logits, draft_logits, draft_tokens, *rest)
    if return_logprobs:
        return accept_len, out, logprobs.of_tokens(target_logits, out, chain, algorithm)
    return accept_len, out


def verify_greedy(
    target_probs: torch.Tensor, draft_tokens: torch.Tensor, *, validate: bool = False
) -> Verdict:
    """Verify K draft tokens at temperature 0: accept while t_i is the first maximum of row i.

    Args:
        target_probs: float32, float16 or bfloat16 [K + 1, V], or [B, K + 1, V] for a batch; only
            the argmax of a row is read, so logits serve as well.
        draft_tokens: int64 [K] or [B, K].

    Returns:
        (n_accepted, next_token): keep draft_tokens[:n_accepted] and append next_token, which is -1
        if its row holds nothing but NaN and -inf. Python ints for one sequence on the CPU; int64
        tensors [B] for a batch and 0-d ones on a GPU, for which nothing waits.

    Raises:
        RuntimeError: a tensor has the wrong dtype, shape, stride or device.
    """
    if not (isinstance(target_probs, torch.Tensor) and isinstance(draft_tokens, torch.Tensor)):
        _arguments.tensor("verify_greedy", "target_probs", target_probs)
        _arguments.tensor("verify_greedy", "draft_tokens", draft_tokens)
    if validate:
        ops.verify_greedy.check(target_probs, draft_tokens)
        _validation.logits("verify_greedy", "target_probs", target_probs)
        _validation.tokens("verify_greedy", "draft_tokens", draft_tokens, target_probs.shape[-1])
    op = _greedy_tensors if _is_for_tensors(target_probs) else _greedy_numbers
    return op(target_probs, draft_tokens)


def accept(
    target_probs: torch.Tensor,
    draft_probs: Optional[torch.Tensor],
    draft_tokens: torch.Tensor,
    generator: Optional[torch.Generator] = None,
    *,
    uniforms: Optional[torch.Tensor] = None,
    normalized: bool = False,
    method: Literal["token", "block"] = "token",
    validate: bool = False,
) -> Verdict:
    """Verify K draft tokens by speculative sampling, from ready probabilities.

    Accept t_i while u_i * q_i(t_i) < p_i(t_i) (Leviathan et al. 2023, algorithm 1; Chen et al.
    2023, algorithm 2); at the first failure draw from max(p_i - q_i, 0), with all accepted from
    p_K. Both models' rows must be warped alike. method="block" is block verification, as in
    `verify`.

    Args:
        target_probs: float32, float16 or bfloat16 [K + 1, V], or [B, K + 1, V] for a batch. Rows
            need not be normalised; negative values and NaN count as 0.
        draft_probs: the same [K, Vd] or [B, K, Vd], or None for a deterministic draft.
        draft_tokens: int64 [K] or [B, K]; an id that is -1, in neither vocabulary or has q = 0 ends
            the draft.
        generator: a torch.Generator; exactly K + 1 float64 uniforms a sequence are drawn from it,
            on its device, whatever happens. None: torch's default generator.
        uniforms: float64 [K + 1] or [B, K + 1] in [0, 1), contiguous, in place of a generator: one
            a draft token, and the one of the final draw. Under the block rule, uniform i is that of
            the test that the first i + 1 tokens stand. What lies outside counts as the nearest end,
            NaN as 0.
        normalized: promise that every row sums to 1, so that no sum is taken: of an accepted
            position only two values are read.
        method: "token" or "block".
        validate: also raise ValueError on NaN, negative values, empty rows, ids out of range and
            uniforms outside [0, 1).

    Returns:
        (n_accepted, next_token); next_token is -1 if its row has no mass. Python ints for one
        sequence on the CPU with a generator; else int64 tensors, [B] or 0-d, for which nothing
        waits.

    Raises:
        ValueError, TypeError: generator is none, or uniforms are given beside it; unknown method.
        RuntimeError: a tensor has the wrong dtype, shape, stride or device; nothing was drawn.
    """
    if (
        generator is None
        and uniforms is None
        and not validate
        and method == "token"
        and isinstance(target_probs, Tensor)
        and isinstance(draft_probs, MAYBE_TENSOR)
        and isinstance(draft_tokens, Tensor)
        and not is_compiling()
    ):
        op = _accept_tensors if _is_for_tensors(target_probs) else _accept_numbers
        return op(target_probs, draft_probs, draft_tokens, None, normalized, _TOKEN_RULE)
    rule = _rule("accept", method, _METHODS[:2])
    _arguments.tensor("accept", "target_probs", target_probs)
    _arguments.tensor("accept", "draft_tokens", draft_tokens)
    if draft_probs is not None:
        _arguments.tensor("accept", "draft_probs", draft_probs)
    _arguments.generator("accept", generator)
    if uniforms is not None:
        _arguments.tensor("accept", "uniforms", uniforms)
        if generator is not None:
            raise ValueError("accept: generator and uniforms are given, wanted one of them at most")
    numbers = uniforms is None and not _is_for_tensors(target_probs)
    draws = uniforms is None and (generator is not None or is_compiling())
    if draws or validate:
        ops.accept.check(target_probs, draft_probs, draft_tokens, uniforms)
    if validate:
        _validation.probabilities("accept", "target_probs", target_probs)
        _validation.tokens("accept", "draft_tokens", draft_tokens, target_probs.shape[-1])
        if draft_probs is not None:
            _validation.probabilities("accept", "draft_probs", draft_probs)
        if uniforms is not None:
            _validation.uniforms("accept", "uniforms", uniforms)
    if draws:
        uniforms = _arguments.uniforms(generator, target_probs.shape[:-1], target_probs.device)
    op = _accept_numbers if numbers else _accept_tensors
    return op(target_probs, draft_probs, draft_tokens, uniforms, normalized, rule)


def _is_for_tensors(target_probs):
    """Whether results are tensors: a batch's, and those that would have to be waited for."""
    return target_probs.ndim == 3 or not target_probs.is_cpu


def _rule(op, method, wanted):
    """A method as the ops count them."""
    if method not in wanted:
        names = ", ".join(f'"{name}"' for name in wanted[:-1])
        raise ValueError(f'{op}: method is {method!r}, wanted {names} or "{wanted[-1]}"')
    return _METHODS.index(method)


def _accept_with_uniforms(
    target_probs, draft_probs, draft_tokens, uniforms, normalized=False, method="token"
):
    """`accept` with its K + 1 uniforms given, its result as numbers."""
    rule = _METHODS.index(method)
    return ops.accept.default(target_probs, draft_probs, draft_tokens, uniforms, normalized, rule)


def _verify_with_words(
    target_logits, draft_logits, draft_tokens, words, temperature=1.0, method="token"
):
    """`verify` with its random words given: int64 [B, k + 1], read as fractions of 2**64."""
    rule = _METHODS.index(method)
    rows = target_logits, draft_logits, draft_tokens
    return ops.verify.default(*rows, temperature, None, 0, rule, words=words)


def _validate(target_logits, draft_logits, draft_tokens, prev_tokens):
    vocab = target_logits.shape[-1]
    _validation.logits("verify", "target_logits", target_logits)
    if draft_logits is not None:
        _validation.logits("verify", "draft_logits", draft_logits)
    _validation.tokens("verify", "draft_tokens", draft_tokens, vocab)
    if prev_tokens is not None:
        _validation.tokens("verify", "prev_tokens", prev_tokens, vocab)


@torch.library.register_fake(add_op_namespace_prefix("verify"))
@torch.library.register_fake(add_op_namespace_prefix("verify.numbers"))
def _verify_fake(target_logits, *rest):
    _arguments.require_one_device("verify", target_logits, *rest)
    rows, positions, _ = target_logits.shape
    accept_len = target_logits.new_empty((rows,), dtype=torch.int64)
    return accept_len, target_logits.new_empty((rows, positions), dtype=torch.int64)
