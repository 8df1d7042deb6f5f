# SPDX-License-Identifier: Apache-2.0
"""What the decoding loop takes from its caller: token ids as lists or tensors, and what the
callbacks return."""

from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple, Optional, Union

import torch

Ids = Union[list[int], torch.Tensor]
WANTED_IDS = "a list of int or a 1-D tensor of int64 or int32"
_ID_TYPES = (torch.int64, torch.int32)  # narrower ones cannot hold every token


class Draft(NamedTuple):
    """A round's proposal: n tokens, and the draft's [n, V'] rows unless it is deterministic."""

    tokens: list[int]
    rows: Optional[torch.Tensor]


def integer(where: str, name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise TypeError(f"{where}: {name} is {value!r}, wanted an integer")


def token_id(where: str, name: str, value: Any) -> int:
    value = integer(where, name, value)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{where}: {name} is {value}, wanted an id of 64 bits")
    return value


def count(where: str, name: str, value: Any) -> int:
    value = integer(where, name, value)
    if value < 0:
        raise ValueError(f"{where}: {name} is {value}, wanted 0 or more")
    return value


def prompt(where: str, ids: Any) -> Ids:
    """A copy of the prompt if it is one. Its kind, list or tensor, is that of all ids of the
    call."""
    if isinstance(ids, torch.Tensor):
        _check_tensor(where, "prompt_ids", ids)
        ids = ids.clone()
    elif isinstance(ids, list):
        ids = [token_id(where, f"prompt_ids[{i}]", each) for i, each in enumerate(ids)]
    else:
        raise TypeError(f"{where}: prompt_ids is a {type(ids).__name__}, wanted {WANTED_IDS}")
    if len(ids) == 0:
        raise ValueError(f"{where}: prompt_ids is empty, wanted at least one token")
    return ids


def draft(result: Any, k: int) -> Draft:
    """What `draft_step` returned when asked for k tokens. Ids from the first negative one on are
    padding."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        kind = type(result).__name__
        size = f" of length {len(result)}" if isinstance(result, (tuple, list)) else ""
        raise TypeError(f"draft_step returned a {kind}{size}, wanted (tokens, probs)")
    ids, rows = result
    if isinstance(ids, torch.Tensor):
        _check_tensor("draft_step", "its first result", ids)
        tokens = ids.tolist()
    elif isinstance(ids, (list, tuple)):
        tokens = [token_id("draft_step", f"token {i}", each) for i, each in enumerate(ids)]
    else:
        kind = type(ids).__name__
        raise TypeError(f"draft_step: its first result is a {kind}, wanted {WANTED_IDS}")
    if len(tokens) > k:
        raise ValueError(f"draft_step returned {len(tokens)} tokens, wanted at most k = {k}")
    if rows is not None:
        check_rows("draft_step", rows, len(tokens))
    used = next((i for i, token in enumerate(tokens) if token < 0), len(tokens))
    return Draft(tokens[:used], rows[:used] if used and rows is not None else None)


def called(name: str, callback: Callable, *arguments: Any) -> Any:
    """What the callback returns. An error of its own passes through with a note that names it; a
    StopIteration would look like the end of a stream, and becomes a RuntimeError."""
    try:
        return callback(*arguments)
    except StopIteration as error:
        raise RuntimeError(f"{name} raised StopIteration, wanted another error") from error
    except BaseException as error:
        # What error.add_note does, which Python has from 3.11 on.
        error.__notes__ = [*getattr(error, "__notes__", []), f"raised by the callback {name}"]
        raise


def check_rows(callback: str, rows: Any, wanted: int) -> None:
    if not isinstance(rows, torch.Tensor):
        kind = type(rows).__name__
        raise TypeError(f"{callback} returned rows as a {kind}, wanted a tensor [{wanted}, V]")
    if rows.dim() != 2 or rows.shape[0] != wanted:
        shape = list(rows.shape)
        raise ValueError(f"{callback} returned rows of shape {shape}, wanted [{wanted}, V]")


def check_callable(where: str, name: str, value: Any, optional: bool = False) -> None:
    if not callable(value) and not (optional and value is None):
        wanted = "a callable or None" if optional else "a callable"
        raise TypeError(f"{where}: {name} is {value!r}, wanted {wanted}")


def own_copy(ids: Ids) -> Ids:
    return ids.clone() if isinstance(ids, torch.Tensor) else list(ids)


def like(ids: Ids, tokens: list[int]) -> Ids:
    """The tokens as the kind that `ids` is."""
    if isinstance(ids, torch.Tensor):
        return torch.tensor(tokens, dtype=ids.dtype, device=ids.device)
    return list(tokens)


def extended(ids: Ids, tokens: list[int]) -> Ids:
    if isinstance(ids, torch.Tensor):
        return torch.cat([ids, like(ids, tokens)])
    return ids + tokens


def _check_tensor(where: str, name: str, ids: torch.Tensor) -> None:
    if ids.dim() != 1 or ids.dtype not in _ID_TYPES:
        given = f"{ids.dtype} of shape {list(ids.shape)}"
        raise ValueError(f"{where}: {name} is {given}, wanted {WANTED_IDS}")
