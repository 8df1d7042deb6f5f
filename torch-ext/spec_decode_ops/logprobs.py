# SPDX-License-Identifier: Apache-2.0
"""logprobs: how likely emitted tokens were, under the filtered and the unfiltered target."""

from typing import NamedTuple

import torch

from . import _arguments
from ._ops import add_op_namespace_prefix, ops


class Logprobs(NamedTuple):
    """Natural logarithms, float32, shaped like the tokens; NaN where a token is -1.

    filtered: under the law that the token was drawn from: penalty, temperature, top-k, top-p,
        min-p. 0 in a greedy row, which leaves one token.
    unfiltered: under softmax of the logits as they were given: no penalty, temperature 1, no
        filter.

    Each is within 2**-18 + 2**-22 * |logprob| of exact arithmetic, and has the same bits on every
    device. A token of tiny probability keeps that accuracy: its logprob comes from the difference
    of logits. Like an argmax they have no gradient.
    """

    filtered: torch.Tensor
    unfiltered: torch.Tensor


def of_tokens(logits, tokens, chain, algorithm):
    """Of tokens [B, P] under logits [B, P, V]: position i has seen prev_tokens and the i tokens
    before it. Or of tokens [B] or [] under logits [B, V] or [V]. `chain` is what the tokens were
    drawn with, `algorithm` its place."""
    rest = chain.temperature, *chain.filters, algorithm, *chain.tensors
    return Logprobs(*ops.logprobs.default(logits, tokens, *rest))


@torch.library.register_fake(add_op_namespace_prefix("logprobs"))
def _logprobs_fake(logits, tokens, *rest):
    _arguments.require_one_device("logprobs", logits, tokens, *rest)
    return tuple(logits.new_empty(tokens.shape, dtype=torch.float32) for _ in range(2))
