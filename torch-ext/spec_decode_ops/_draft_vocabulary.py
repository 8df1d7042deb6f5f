# SPDX-License-Identifier: Apache-2.0
"""A draft with a reduced vocabulary: column j of its logits is target token ids[j].

Its rows are written out to the target's width, -inf where the draft has no token. Penalties by
token id, filters and the residual are then those of any draft.
"""

import torch

NAME = "draft_token_ids"


def check(op, ids, draft_logits, vocab, values):
    """Raises unless `ids` are int64, one a column of the draft, and strictly increasing in
    [0, vocab), so that ties go to the same token in both vocabularies. Their values are looked at
    on the CPU, and if `values` says so on a GPU, which that waits for."""
    if not isinstance(ids, torch.Tensor):
        raise TypeError(f"{op}: {NAME} is a {type(ids).__name__}, wanted a tensor or None")
    if draft_logits is None:
        raise ValueError(
            f"{op}: {NAME} is given and draft_logits is None, wanted the logits that it names"
        )
    wanted = (draft_logits.shape[-1],)
    given = f"{str(ids.dtype)[len('torch.') :]}{list(ids.shape)} on {ids.device}"
    if ids.dtype != torch.int64 or ids.shape != wanted or ids.device != draft_logits.device:
        raise RuntimeError(
            f"{op}: {NAME} is {given}, wanted int64 of shape {list(wanted)} on "
            f"{draft_logits.device} (draft_logits is {list(draft_logits.shape)})"
        )
    if torch.compiler.is_compiling() or not (values or ids.device.type == "cpu"):
        return
    if not ids.numel():
        return
    if not bool((ids[1:] > ids[:-1]).all()):
        place = int((ids[1:] <= ids[:-1]).nonzero()[0, 0])
        raise ValueError(
            f"{op}: {NAME} is {int(ids[place])} at {place} and {int(ids[place + 1])} after it, "
            "wanted strictly increasing ids"
        )
    if int(ids[0]) < 0 or int(ids[-1]) >= vocab:
        place = 0 if int(ids[0]) < 0 else len(ids) - 1
        raise ValueError(
            f"{op}: {NAME} is {int(ids[place])} at {place}, wanted ids in [0, {vocab})"
        )


def widened(draft_logits, ids, vocab):
    """draft_logits [..., Vd] as [..., vocab]. Ids outside, which were not looked at, have no place
    there."""
    if ids.device.type != "cpu" or torch.compiler.is_compiling():
        ids = ids.where((ids >= 0) & (ids < vocab), vocab)  # one column too many takes them
    full = draft_logits.new_full((*draft_logits.shape[:-1], vocab + 1), -torch.inf)
    return full.scatter_(-1, ids.expand_as(draft_logits), draft_logits)[..., :vocab]
