# SPDX-License-Identifier: Apache-2.0
"""What torch is told of all ops alike: their checks, that they have no gradient, and no vmap.

Like torch.argmax the ops are constant almost everywhere: their results never require a gradient,
whatever their inputs do. Under vmap a loop over rows would draw all of them from noise stream 0.
"""

import torch

from . import _arguments
from ._ops import add_op_namespace_prefix

_OVERLOADS = {
    "sample": ("", ".check", ".numbers"),
    "filter_logits": ("", ".check", ".numbers"),
    "verify": ("", ".check", ".numbers"),
    "logprobs": ("",),
    "verify_greedy": ("", ".check", ".tensors"),
    "accept": ("", ".check", ".tensors"),
}
_DRAWN_BY_ROW = ("sample", "verify")

_library = torch.library.Library(add_op_namespace_prefix("").partition("::")[0], "IMPL")


def _fake_check(op):
    def check(leader, *rest):
        _arguments.require_one_device(op, leader, *rest)

    return check


def _refuse_vmap(op):
    def rule(info, in_dims, *arguments):
        raise RuntimeError(
            f"{op}: called under torch.func.vmap, wanted a batch [B, ...], of which every row has "
            "a noise stream of its own"
        )

    return rule


for _op, _overloads in _OVERLOADS.items():
    if ".check" in _overloads:
        torch.library.register_fake(add_op_namespace_prefix(f"{_op}.check"), _fake_check(_op))
    for _overload in _overloads:
        _library.impl(_op + _overload, torch.library.fallthrough_kernel, "Autograd")
        if _op in _DRAWN_BY_ROW:
            torch.library.register_vmap(add_op_namespace_prefix(_op + _overload), _refuse_vmap(_op))
