# SPDX-License-Identifier: Apache-2.0
"""Calls of the public functions that are right but for one or two arguments: those are of a kind,
dtype, shape, stride, device or value that no call may have."""

import torch
from hypothesis import strategies as st

from fuzz.inputs import INF, NAN

BATCH, DRAFTS, VOCAB = 3, 2, 5


def _filters():
    return {
        "temperature": 0.8,
        "top_k": 3,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "prev_tokens": torch.zeros(BATCH, 2, dtype=torch.int64),
    }


def _round(target, draft):
    return {
        target: torch.ones(BATCH, DRAFTS + 1, VOCAB),
        draft: torch.ones(BATCH, DRAFTS, VOCAB),
        "draft_tokens": torch.zeros(BATCH, DRAFTS, dtype=torch.int64),
    }


GOOD = {
    "sample": lambda: {"logits": torch.ones(BATCH, VOCAB), **_filters(), "seed": 1, "offset": 2},
    "filter_logits": lambda: {"logits": torch.ones(BATCH, VOCAB), **_filters()},
    "verify": lambda: {
        **_round("target_logits", "draft_logits"),
        **_filters(),
        "seed": 1,
        "offset": 2,
    },
    "accept": lambda: {
        **_round("target_probs", "draft_probs"),
        "uniforms": torch.zeros(BATCH, DRAFTS + 1, dtype=torch.float64),
    },
    "verify_greedy": lambda: {
        "target_probs": torch.ones(BATCH, DRAFTS + 1, VOCAB),
        "draft_tokens": torch.zeros(BATCH, DRAFTS, dtype=torch.int64),
    },
}

NO_TENSOR = ["1", b"1", [1.0], (0,), {}, object, 1.5, 1]
NO_NUMBER = ["1", b"1", True, False, None, [1.0], {}, object, 1j]
NO_REAL = [*NO_NUMBER, NAN, INF, -INF, 1e39, -(10**40), 10**400]


def _wrong_tensors(right):
    """Tensors that are not of the dtype, shape or device of this one."""
    wrong = [right.to(torch.complex64), right.to(torch.uint8), right.to("meta"), right.bool()]
    wrong += [right.to(torch.int64 if right.is_floating_point() else torch.float32)]
    wrong += [right[None, None], torch.cat([right, right[:1]]), right[..., None], right.to_sparse()]
    if right.dim() == 3:
        wrong += [right[:, :0], right[..., :0], right[:2]]
        wrong += [right.transpose(1, 2).contiguous().transpose(1, 2)]
    return wrong


def _bad(name, right):
    if name == "prev_tokens":
        return [*_wrong_tensors(right), *NO_TENSOR]
    if isinstance(right, torch.Tensor):
        none = [] if name.startswith("draft_") or name == "uniforms" else [None]
        return [*_wrong_tensors(right), *NO_TENSOR, *none]
    if name in ("seed", "offset", "top_k"):
        numbers = [value for value in NO_NUMBER if not (name == "seed" and value is None)]
        numbers += [1.5, NAN, *([-1, 2**60, 2**64] if name == "offset" else [])]
        entries = torch.ones(BATCH, dtype=torch.int64)
    else:
        numbers = list(NO_REAL)
        numbers += [0.0, -1.0, 1e-46] if name == "repetition_penalty" else []
        numbers += [1e-46] if name == "temperature" else []
        entries = torch.ones(BATCH)
    tensors = [entries[:2], entries[:0], entries[None], entries.to(torch.int32), entries.half()]
    return [*numbers, *tensors, entries.to("meta"), entries.to_sparse()]


CALLS = [
    (op, name, value)
    for op, arguments in GOOD.items()
    for name, right in arguments().items()
    for value in _bad(name, right)
]


ANY_CALL = st.sampled_from(CALLS)
OTHER = {op: st.sampled_from([call for call in CALLS if call[0] == op]) for op in GOOD}
BOOLEAN = st.booleans()


@st.composite
def calls(draw):
    """(op, keyword arguments, the names that its error may name)."""
    op, name, value = draw(ANY_CALL)
    arguments = GOOD[op]()
    arguments[name] = value
    names = [name]
    if draw(BOOLEAN):
        _, other, bad = draw(OTHER[op])
        if other != name:
            arguments[other] = bad
            names.append(other)
    # Where two shapes do not fit each other, either may be the wrong one.
    names += [each for each, right in arguments.items() if isinstance(right, torch.Tensor)]
    if op in ("sample", "verify") and draw(BOOLEAN):
        arguments["seed"] = None if "seed" not in names else arguments["seed"]
    return op, arguments, names
