# SPDX-License-Identifier: Apache-2.0
"""What `validate=True` looks for: values an op has a defined answer to, but nobody means to give.

These checks read the tensors, so on CUDA they wait for the device.
"""

import torch


def _first(mask):
    """The index of the first True as text, or None."""
    places = mask.nonzero()
    if not len(places):
        return None
    names = {1: ("column",), 2: ("row", "column"), 3: ("row", "position", "column")}[mask.dim()]
    return ", ".join(f"{name} {place}" for name, place in zip(names, places[0].tolist()))


def logits(op, name, values):
    """Raises on NaN, and on a row in which nothing can be drawn."""
    if where := _first(values.isnan()):
        raise ValueError(f"{op}: {name} is NaN at {where}")
    empty = (values == -torch.inf).all(dim=-1, keepdim=True)
    if where := _first(empty):
        raise ValueError(f"{op}: {name} has no finite logit in {where.rpartition(', ')[0] or 'it'}")


def probabilities(op, name, values):
    """Raises on NaN, on negative values, and on a row without mass."""
    if where := _first(~(values >= 0)):
        raise ValueError(f"{op}: {name} is negative or NaN at {where}")
    if where := _first((values == 0).all(dim=-1, keepdim=True)):
        raise ValueError(f"{op}: {name} has no mass in {where.rpartition(', ')[0]}")


def uniforms(op, name, values):
    """Raises on what is not in [0, 1)."""
    if where := _first(~((values >= 0) & (values < 1))):
        raise ValueError(f"{op}: {name} is outside [0, 1) at {where}")


def tokens(op, name, ids, vocab, padding=-1):
    """Raises on ids outside [0, vocab) other than the padding."""
    if where := _first((ids != padding) & ((ids < 0) | (ids >= vocab))):
        raise ValueError(f"{op}: {name} is outside [0, {vocab}) at {where}")
