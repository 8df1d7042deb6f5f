# SPDX-License-Identifier: Apache-2.0
"""Times of `sample` against the vocabulary and against the batch, as data for the plots:
`python benchmarks/sweep.py FILE`, on the CPU, under two minutes.

Beside each stand the eager chain, timed in turn with it, and the floor: the time of the pass that
only reads the same rows for their largest logit, by the same instruction set.
"""

import argparse
import sys
from pathlib import Path

import torch
from cases import FULL, PLAIN, TOP_P, chain, eager_draw, history, logit_rows
from table import ROOT, load, machine, medians, write

sys.path.insert(0, str(ROOT / "benchmarks" / "clock"))

from clock import Clock  # noqa: E402

VOCABS = [1024, 4096, 16384, 32000, 65536, 128256, 262144]
BATCHES = [1, 2, 4, 8, 16, 32, 64]
BATCH_VOCAB = 32000


def ways(sdo, x):
    """(what, ours, eager) for rows x."""
    ids = history(x.shape[-1]).expand(len(x), -1)
    full, top_p, plain = chain(**FULL), chain(**TOP_P), chain(**PLAIN)
    return [
        (
            "penalty, T, top-k, top-p, min-p",
            lambda: sdo.sample(x, prev_tokens=ids, seed=3, **FULL),
            lambda: eager_draw(full, ids, x),
        ),
        (
            "T, top-p",
            lambda: sdo.sample(x, seed=3, **TOP_P),
            lambda: eager_draw(top_p, ids, x),
        ),
        ("T", lambda: sdo.sample(x, seed=3, **PLAIN), lambda: eager_draw(plain, ids, x)),
        ("greedy", lambda: sdo.sample(x, 0), lambda: x.argmax(-1)),
    ]


def measured(sdo, clock, shapes, runs):
    for batch, vocab in shapes:
        x = logit_rows(batch, vocab)
        floor = clock.largest(x)
        for what, ours, eager in ways(sdo, x):
            mine, theirs = medians(ours, eager, runs)
            row = {"what": what, "batch": batch, "vocab": vocab}
            yield {**row, "ours_us": mine, "eager_us": theirs, "floor_us": floor}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sdo = load()
    clock = Clock(sdo._cpu_target())
    shapes = [(1, v) for v in VOCABS], [(b, BATCH_VOCAB) for b in BATCHES]
    results = {"machine": machine(sdo, threads=1), "runs": arguments.runs}
    for name, some in zip(("by_vocab", "by_batch"), shapes):
        results[name] = list(measured(sdo, clock, some, arguments.runs))
    write(arguments.file, results)
    print(f"{len(results['by_vocab']) + len(results['by_batch'])} times in {arguments.file}")


if __name__ == "__main__":
    main()
