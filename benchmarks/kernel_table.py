# SPDX-License-Identifier: Apache-2.0
"""Whole calls beside eager torch, and kernels beside the pass that only reads: `python
benchmarks/kernel_table.py`, on the CPU, one thread.

The first table is for rows of randn * 3 and, where an op takes one row, for rows of SmolLM2. Ours
and theirs run in turn. The second has each op's kernel on hard rows, by its time on normal ones.
The third has those of verification on 16-bit rows.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

import kernels
import torch
from cases import (
    FULL,
    PLAIN,
    TOP_P,
    accepted_by_coupling,
    chain,
    eager_accept,
    eager_draw,
    history,
)
from table import medians, processor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks" / "clock"), str(ROOT / "tests" / "data")]

from clock import Clock  # noqa: E402

VOCAB, SHORT, DRAFTS = 128256, 32000, 4


def normal_rows(rows, vocab):
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(0)) * 3


def smollm2_rows():
    import numpy as np

    bits = np.load(ROOT / "tests" / "data" / "smollm2_rows.npz")["rows"]
    return torch.from_numpy(bits.view("int16")).view(torch.bfloat16).float()


def one_row_cases(sdo, clock, x, ids):
    """(op, what it is measured against, ours, theirs, kernel) for one row [1, V]."""
    full, top_p, plain = chain(**FULL), chain(**TOP_P), chain(**PLAIN)
    return [
        (
            "sample, full chain, penalty over 200 ids",
            "transformers chain",
            lambda: sdo.sample(x, prev_tokens=ids, seed=3, **FULL),
            lambda: eager_draw(full, ids, x),
            lambda: clock.sample(x, ids[0], **FULL),
        ),
        (
            "sample, T .8, p .95",
            "transformers chain",
            lambda: sdo.sample(x, seed=3, **TOP_P),
            lambda: eager_draw(top_p, ids, x),
            lambda: clock.sample(x, mean=True, **TOP_P),
        ),
        (
            "sample, T .8",
            "softmax + multinomial",
            lambda: sdo.sample(x, seed=3, **PLAIN),
            lambda: eager_draw(plain, ids, x),
            lambda: clock.sample(x, **PLAIN),
        ),
        (
            "sample, greedy",
            "torch.argmax",
            lambda: sdo.sample(x, 0),
            lambda: x.argmax(-1),
            lambda: clock.sample(x, temperature=0.0),
        ),
        (
            "filter_logits, T .8, p .95",
            "transformers chain",
            lambda: sdo.filter_logits(x, **TOP_P),
            lambda: top_p(ids, x),
            lambda: clock.filter_logits(x, **TOP_P),
        ),
    ]


def drafted(vocab, rejected_at):
    """Target and draft logits, alike up to `rejected_at` and then apart by N(0, 1/4), and draft
    tokens of which that many are accepted."""
    target = normal_rows(DRAFTS + 1, vocab)
    draft = target[:DRAFTS].clone()
    draft[rejected_at:] += normal_rows(DRAFTS, vocab)[rejected_at:].flip(1) / 6
    tokens = draft.argmax(-1)
    if rejected_at < DRAFTS:
        target[rejected_at, tokens[rejected_at]] = -torch.inf
    return target, draft, tokens


class Rounds(NamedTuple):
    """The rows of the verification ops, of one dtype."""

    target: torch.Tensor  # logits of the short vocabulary, of which all draft tokens are accepted
    tokens: torch.Tensor
    p: torch.Tensor  # probabilities, of which two are
    q: torch.Tensor
    long: tuple  # target and draft logits and draft tokens, of which two are accepted
    coupled: torch.Tensor  # target logits, and draft tokens that coupling accepts
    agreed: torch.Tensor


def rounds(sdo, dtype=torch.float32):
    target, draft, tokens = drafted(SHORT, DRAFTS)
    rejected, _, _ = drafted(SHORT, 2)
    long, long_draft, long_tokens = drafted(VOCAB, 2)
    coupled = drafted(VOCAB, DRAFTS)[0].to(dtype)
    seed = Clock.COUPLED_SEED
    return Rounds(
        target.to(dtype),
        tokens,
        rejected.softmax(-1).to(dtype),
        draft.softmax(-1).to(dtype),
        (long.to(dtype), long_draft.to(dtype), long_tokens),
        coupled,
        accepted_by_coupling(sdo, coupled, history(VOCAB), seed=seed, **FULL),
    )


def verify_kernels(clock, of):
    """op -> its kernel on these rounds."""
    u = torch.full((DRAFTS + 1,), 0.5, dtype=torch.float64)
    full = {**FULL, "previous": history(VOCAB)[0]}
    return {
        f"verify_greedy, V {SHORT}, all accepted": lambda: clock.accept(of.target, None, of.tokens),
        f"accept, V {SHORT}, accept_len 2, unnormalised": lambda: clock.accept(
            of.p, of.q, of.tokens, u
        ),
        f"accept, V {SHORT}, accept_len 2, normalized=True": lambda: clock.accept(
            of.p, of.q, of.tokens, u, normalized=True
        ),
        f"verify from logits, V {VOCAB}, accept_len 2": lambda: clock.verify(
            *of.long, temperature=0.8
        ),
        f"coupled verify, full chain, V {VOCAB}, all accepted": lambda: clock.verify(
            of.coupled, None, of.agreed, coupled=True, **full
        ),
    }


def verify_cases(sdo, clock):
    """As one_row_cases, and the rows of which the kernel must at least read the largest."""
    of = rounds(sdo)
    p, q, tokens, coupled = of.p, of.q, of.tokens, of.coupled
    batch = [rows[None] for rows in of.long]
    ids, full = history(VOCAB), chain(**FULL)
    calls = [
        (
            "torch.amax of the rows",
            lambda: sdo.verify_greedy(of.target, tokens),
            lambda: of.target.amax(-1),
            of.target,
        ),
        (
            "eager",
            lambda: sdo.accept(p, q, tokens),
            lambda: eager_accept(p, q, tokens),
            torch.cat([p[:3], q[:3]]),
        ),
        (
            "eager",
            lambda: sdo.accept(p, q, tokens, normalized=True),
            lambda: eager_accept(p, q, tokens),
            torch.stack([p[2], q[2]]),
        ),
        (
            "eager",
            lambda: sdo.verify(*batch, 0.8, seed=3),
            lambda: sdo.reference.eager_verify(*batch, 0.8),
            torch.cat([rows[:3] for rows in of.long[:2]]),
        ),
        (
            "transformers chain over 5 rows",
            lambda: sdo.verify(
                coupled[None],
                None,
                of.agreed[None],
                seed=Clock.COUPLED_SEED,
                **FULL,
                prev_tokens=ids,
                method="coupled",
            ),
            lambda: eager_draw(full, ids.expand(DRAFTS + 1, -1), coupled),
            coupled,
        ),
    ]
    return [
        (op, against, ours, theirs, kernel, rows)
        for (op, kernel), (against, ours, theirs, rows) in zip(
            verify_kernels(clock, of).items(), calls
        )
    ]


def hard_rows():
    x = normal_rows(1, VOCAB)
    return {
        "normal": x,
        "flat": 30 + x / 150,
        "peaked": x * 8 / 3,
        "bf16 ties": x.bfloat16().float(),
        "ascending": x.sort().values,
        "bfloat16": x.bfloat16(),
        "float16": x.half(),
    }


def print_case(case, rows, floor, runs):
    what, against, ours, theirs, kernel = case
    mine, other = medians(ours, theirs, runs)
    alone = kernel()
    print(
        f"| {what} | {rows} | {against} | {mine:.1f} | {other:.0f} | {other / mine:.1f}x | "
        f"{alone:.1f} | {floor:.1f} | {alone / floor:.2f} |",
        flush=True,
    )


def print_by_the_first(what, times):
    cells = [f"{time:.1f} ({time / times[0]:.2f})" for time in times]
    print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


def print_hard_rows(clock):
    ids = history(VOCAB)[0]
    kernels_of_row = {
        "full chain": lambda x: clock.sample(x, ids, **FULL),
        "p .95": lambda x: clock.sample(x, mean=True, **TOP_P),
        "unfiltered": lambda x: clock.sample(x, **PLAIN),
        "greedy": lambda x: clock.sample(x, temperature=0.0),
        "filter_logits p .95": lambda x: clock.filter_logits(x, **TOP_P),
    }
    rows = hard_rows()
    print("\n| kernel alone, us (times its normal row) | " + " | ".join(rows) + " |")
    print("|---|" + "---|" * len(rows))
    for what, kernel in kernels_of_row.items():
        print_by_the_first(what, [kernel(x) for x in rows.values()])


def print_dtypes(sdo, clock):
    dtypes = [torch.float32, torch.bfloat16, torch.float16]
    kernels_of = [verify_kernels(clock, rounds(sdo, dtype)) for dtype in dtypes]
    names = [str(dtype).removeprefix("torch.") for dtype in dtypes]
    print("\n| kernel alone, us (times its float32 rows) | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(dtypes))
    for op in kernels_of[0]:
        print_by_the_first(op, [of_dtype[op]() for of_dtype in kernels_of])


def print_threads(sdo, runs):
    """Two threads by one, at B = 8."""
    x = normal_rows(8, VOCAB)

    def on(threads):
        torch.set_num_threads(threads)
        sdo.sample(x, seed=3, **PLAIN)

    one, two = medians(lambda: on(1), lambda: on(2), runs)
    torch.set_num_threads(1)
    print(
        f"\nsample, T .8, B = 8, V = {VOCAB}: one thread {one:.0f} us, two {two:.0f} us, "
        f"{one / two:.2f}x"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="", help="avx512, avx2, neon or scalar; else the best")
    parser.add_argument("--runs", type=int, default=31)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    os.environ.setdefault("LOCAL_KERNELS", f"phanerozoic/spec-decode-ops={ROOT}")
    sdo = kernels.get_kernel(
        "phanerozoic/spec-decode-ops", version=1, trust_remote_code=True, backend="cpu"
    )
    clock = Clock(sdo._cpu_target(arguments.target))
    print(
        f"{processor()}, torch {torch.__version__}, one thread, target {clock.target}, V = {VOCAB} "
        f"unless said, float32, medians of {arguments.runs} interleaved turns, us\n"
    )
    print("| op | rows | against | ours | theirs | ratio | kernel | max pass | times it |")
    print("|---|---|---|---|---|---|---|---|---|")
    x = normal_rows(1, VOCAB)
    floor = clock.largest(x)
    for case in one_row_cases(sdo, clock, x, history(VOCAB)):
        print_case(case, "randn * 3", floor, arguments.runs)
    for x in smollm2_rows()[2:3]:
        x = x[None].contiguous()
        floor = clock.largest(x)
        for case in one_row_cases(sdo, clock, x, history(x.shape[-1])):
            print_case(case, f"SmolLM2, V {x.shape[-1]}", floor, arguments.runs)
    for *case, rows in verify_cases(sdo, clock):
        print_case(case, "randn * 3", clock.largest(rows), arguments.runs)
    print_hard_rows(clock)
    print_dtypes(sdo, clock)
    even, odd = (clock.largest(normal_rows(3, v)) / v for v in (50256, 50257))
    drawn = [
        sum(clock.sample(row[None], **PLAIN) for row in normal_rows(3, v)) / v
        for v in (50256, 50257)
    ]
    print(
        f"\nV = 50257 by V = 50256, B = 3, a token: max pass {odd / even:.2f}, unfiltered draw "
        f"{drawn[1] / drawn[0]:.2f}"
    )
    print_threads(sdo, arguments.runs)


if __name__ == "__main__":
    main()
