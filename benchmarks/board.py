# SPDX-License-Identifier: Apache-2.0
"""Whole public calls on a small board, or any CPU, by path and by cache state, as a Markdown table:
`python benchmarks/board.py`.

What a round costs depends on where its draft is rejected, as no later row is read, and on whether
its rows are still in cache, as they are when the model has just written them. So each is shown:
"hot" calls find what the call before left in the caches, "cold" ones find other data there. All
cases run in turn, so that a change of the board's speed hits all. Beside them stand the figures
that the earlier package published for whole calls; it does not say of which path and state.
"""

import argparse
import os
import platform
import statistics
import time
from pathlib import Path
from typing import NamedTuple, Optional

import kernels
import torch

ROOT = Path(__file__).resolve().parent.parent
SHAPES = [(32000, 4), (128256, 5)]  # tokens, drafts
PUBLISHED = {  # us on a Pi 5 and a Pi 4
    ("verify_greedy", 32000): (33, 126),
    ("accept", 32000): (117, 657),
    ("verify_greedy", 128256): (59, 140),
    ("accept", 128256): (338, 754),
}
SAMPLERS = {
    "greedy": {"temperature": 0.0},
    "T .8": {"temperature": 0.8},
    "T .8, p .95": {"temperature": 0.8, "top_p": 0.95},
    "T .8, k 50": {"temperature": 0.8, "top_k": 50},
    "T .8, k 50, p .95": {"temperature": 0.8, "top_k": 50, "top_p": 0.95},
}


class Case(NamedTuple):
    op: str
    path: str
    vocab: int
    drafts: Optional[int]
    megabytes: float  # of the rows that decide
    call: object


def sequence(vocab, drafts, accepted):
    """Target and draft probabilities and draft tokens, of which the first `accepted` stand: the
    draft is the target itself, until the target has a zero where the draft has its most."""
    generator = torch.Generator().manual_seed(0)
    target = (torch.randn(drafts + 1, vocab, generator=generator) * 3).softmax(-1)
    draft = target[:drafts].clone()
    tokens = draft.argmax(-1)
    if accepted < drafts:
        target[accepted, tokens[accepted]] = 0
    return target, draft, tokens


def rounds(sdo, vocab, drafts):
    """verify_greedy and accept, rejected at the first draft, in the middle, and not at all."""
    row = 4 * vocab / 1e6
    for accepted in (0, drafts // 2, drafts):
        target, draft, tokens = sequence(vocab, drafts, accepted)
        whole = accepted == drafts
        path = "all accepted" if whole else f"rejected at {accepted}"
        rows = 2 * accepted + (1 if whole else 2)
        yield Case(
            *("verify_greedy", path, vocab, drafts, (accepted + 1) * row),
            lambda p=target, t=tokens: sdo.verify_greedy(p, t),
        )
        yield Case(
            *("accept", path, vocab, drafts, rows * row),
            lambda p=target, q=draft, t=tokens: sdo.accept(p, q, t),
        )
        yield Case(
            *("accept", f"{path}, normalized", vocab, drafts, (1 if whole else 2) * row),
            lambda p=target, q=draft, t=tokens: sdo.accept(p, q, t, normalized=True),
        )


def samples(sdo, vocab):
    x = torch.randn(1, vocab, generator=torch.Generator().manual_seed(0)) * 3
    for what, filters in SAMPLERS.items():
        call = lambda filters=filters: sdo.sample(x, seed=3, **filters)  # noqa: E731
        yield Case("sample", what, vocab, None, 4 * vocab / 1e6, call)


def microseconds(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def medians(cases, runs, elsewhere):
    """(hot, cold) of each case. Before a cold call, `elsewhere` takes the caches."""
    times = [([], []) for _ in cases]
    for run in range(runs + 1):
        for case, (hot, cold) in zip(cases, times):
            elsewhere.add_(1)
            first, second = microseconds(case.call), microseconds(case.call)
            if run:  # the first run warms up
                cold.append(first)
                hot.append(second)
    return [tuple(map(statistics.median, pair)) for pair in times]


def board():
    """What this machine calls itself."""
    model = Path("/proc/device-tree/model")
    if model.exists():
        return model.read_text().strip("\0")
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(cases, times):
    yield "| op, one sequence | path | V | K | MB read | hot, us | cold, us | Pi 5 | Pi 4 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for case, (hot, cold) in zip(cases, times):
        pi5, pi4 = PUBLISHED.get((case.op, case.vocab), ("", ""))
        drafts = "" if case.drafts is None else case.drafts
        figures = f"{case.megabytes:.2f} | {hot:.1f} | {cold:.1f} | {pi5} | {pi4}"
        yield f"| {case.op} | {case.path} | {case.vocab} | {drafts} | {figures} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=101)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vocab", type=int, nargs="+", help="only these of 32000 and 128256")
    parser.add_argument("--cache", type=int, default=64, help="MB, more than this CPU's caches")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    os.environ.setdefault("LOCAL_KERNELS", f"phanerozoic/spec-decode-ops={ROOT}")
    sdo = kernels.get_kernel(
        "phanerozoic/spec-decode-ops", version=1, trust_remote_code=True, backend="cpu"
    )
    shapes = [shape for shape in SHAPES if not arguments.vocab or shape[0] in arguments.vocab]
    cases = [case for shape in shapes for case in rounds(sdo, *shape)]
    cases += [case for vocab, _ in shapes for case in samples(sdo, vocab)]
    elsewhere = torch.zeros(arguments.cache * 2**20 // 4)
    times = medians(cases, arguments.runs, elsewhere)
    print(
        f"{board()}, torch {torch.__version__}, {arguments.threads} thread(s), "
        f"target {sdo._cpu_target()}, float32, medians of {arguments.runs} runs; "
        "beside them published figures, us\n"
    )
    print("\n".join(table(cases, times)))


if __name__ == "__main__":
    main()
