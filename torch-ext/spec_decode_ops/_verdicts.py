# SPDX-License-Identifier: Apache-2.0
"""What verify_greedy and accept return: (n_accepted, next_token), and what torch is told of it
while a graph is compiled."""

from typing import Any

import torch

from . import _arguments
from ._ops import add_op_namespace_prefix

Verdict = tuple[Any, Any]  # two ints, or two tensors: shape and device decide, not the types


def _two_numbers():
    context = torch.library.get_ctx()
    return context.new_dynamic_size(), context.new_dynamic_size()


def _two_tensors(target_probs):
    shape = target_probs.shape[:-2]
    return tuple(target_probs.new_empty(shape, dtype=torch.int64) for _ in range(2))


def _register(op):
    @torch.library.register_fake(add_op_namespace_prefix(op))
    def _numbers(target_probs, *rest):
        _arguments.require_one_device(op, target_probs, *rest)
        return _two_numbers()

    @torch.library.register_fake(add_op_namespace_prefix(f"{op}.tensors"))
    def _tensors(target_probs, *rest):
        _arguments.require_one_device(op, target_probs, *rest)
        return _two_tensors(target_probs)


for _op in ("verify_greedy", "accept"):
    _register(_op)
