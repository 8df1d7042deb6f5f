# SPDX-License-Identifier: Apache-2.0
"""What gpu_check.py times: the calls of each row of its table, ours and others', most important
first."""

import itertools
from dataclasses import dataclass

import model
import torch

FAMILIES = {
    "normal": lambda shape, g: 3 * torch.randn(shape, generator=g, device=g.device),
    "flat": lambda shape, g: 0.02 * torch.randn(shape, generator=g, device=g.device),
    "peaked": lambda shape, g: 8 * torch.randn(shape, generator=g, device=g.device),
    "bf16-tied": lambda shape, g: FAMILIES["normal"](shape, g).bfloat16().float(),
    "ascending": lambda shape, g: torch.linspace(-9, 9, shape[-1], device=g.device).repeat(
        *shape[:-1], 1
    ),
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
HISTORY = 200
SEED = 3


@dataclass(frozen=True)
class Case:
    op: str
    rows: int
    vocab: int
    dtype: str
    family: str

    def __str__(self):
        return f"{self.op}, M={self.rows}, V={self.vocab}, {self.dtype}, {self.family}"


@dataclass(frozen=True)
class Sizes:
    vocabs: tuple
    rows: tuple
    main_vocab: int  # of the rows that come first


FULL_SIZE = Sizes(model.VOCABS, model.ROWS, 128256)
TINY = Sizes((999,), (1, 3), 999)


def main_cases(sizes):
    """Those that rivals are timed beside, and that are timed with cold rows as well."""
    return [
        Case(op, rows, sizes.main_vocab, "float32", "normal")
        for rows in sizes.rows
        for op in model.OPS
    ]


def other_cases(sizes):
    """The rest of the product: bfloat16, then other vocabularies, then other distributions."""
    every = [
        Case(op, rows, vocab, dtype, family)
        for family, vocab, dtype, rows, op in itertools.product(
            FAMILIES, sizes.vocabs, DTYPES, sizes.rows, model.OPS
        )
    ]
    first = set(main_cases(sizes))
    every = [case for case in every if case not in first]
    # At the main vocabulary all distributions come before another vocabulary has more than one.
    return sorted(every, key=lambda c: (c.family != "normal") + 2 * (c.vocab != sizes.main_vocab))


class Inputs:
    """The tensors of a case."""

    def __init__(self, sdo, case, device):
        generator = torch.Generator(device).manual_seed(case.vocab + case.rows)
        self.filters = model.OPS[case.op]
        self.verifies = case.op.startswith("verify")
        shape = (case.rows, case.vocab)
        if self.verifies:
            shape = (case.rows, model.DRAFTS + 1, case.vocab)
        x = FAMILIES[case.family](shape, generator)
        self.x = x.to(DTYPES[case.dtype])
        self.history = torch.randint(
            case.vocab, (case.rows, HISTORY), generator=generator, device=device
        )
        if not self.verifies:
            return
        near = x[:, : model.DRAFTS]
        near = near + 0.5 * torch.randn(near.shape, generator=generator, device=device)
        self.draft = near.to(DTYPES[case.dtype])
        drawn = sdo.sample(self.draft.reshape(-1, case.vocab), seed=SEED, **self.filters)
        self.drafted = drawn.view(case.rows, model.DRAFTS)

    def ours(self, sdo, case):
        arguments = dict(self.filters)
        if "repetition_penalty" in arguments:
            arguments["prev_tokens"] = self.history
        if case.op.startswith("sample"):
            return lambda: (sdo.sample(self.x, seed=SEED, **arguments),)
        if case.op.startswith("filter_logits"):
            return lambda: (sdo.filter_logits(self.x, **arguments),)
        if case.op.endswith("coupled"):
            given = (self.x, None, self.drafted)
            return lambda: sdo.verify(*given, seed=SEED, method="coupled", **arguments)
        return lambda: sdo.verify(self.x, self.draft, self.drafted, seed=SEED, **arguments)
