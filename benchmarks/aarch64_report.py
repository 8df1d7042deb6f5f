# SPDX-License-Identifier: Apache-2.0
"""What g++ made of the neon target, and the least time that leaves a Raspberry Pi, as Markdown
tables: `python benchmarks/aarch64_report.py`. Nothing is run: cycles are llvm-mca's.

The bound of an op is the larger of two times. Its inner loops take so many cycles a token, with all
data in the first cache; and the rows it reads come from memory, each once, no faster than the
memory's pins can send them. What one core gets is less: --bandwidth 11 4.5 (GB/s, Pi 5 and Pi 4)
puts a measured figure in place of the pins'.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "packaging"))

from aarch64_loops import Wanted, assembly, measure  # noqa: E402


class Board(NamedTuple):
    name: str
    processor: str  # llvm-mca's: it has no model of the A76, of which Neoverse N1 is the twin
    gigahertz: float
    bandwidth: float  # GB/s: 32 bits at the transfer rate of the board's product brief


BOARDS = [
    Board("Pi 5", "neoverse-n1", 2.4, 4 * 4.267),  # Cortex-A76, LPDDR4X-4267
    Board("Pi 4", "cortex-a72", 1.8, 4 * 3.2),  # Cortex-A72, LPDDR4-3200
]
SHAPES = [(32000, 4), (128256, 5)]  # tokens, drafts
# Whole calls of the earlier package on the boards, us; it says neither how many rows were read nor
# whether they were in cache.
PUBLISHED = {
    ("verify_greedy", "Pi 5"): (33, 59),
    ("accept", "Pi 5"): (117, 338),
    ("verify_greedy", "Pi 4"): (126, 140),
    ("accept", "Pi 4"): (657, 754),
}

LARGEST = Wanted("largest logit", "reduce-inl.h", "lane_maxima", "i += 4 * kLanes", loads=64)
WEIGHTS = Wanted("weights of logits", "mass-inl.h", "weigh", "i += 2 * kLanes", exponential=True)
ROW_WEIGHTS = WEIGHTS._replace(title="weights of probabilities", exponential=False)
MASS = Wanted("mass of weights", "mass-inl.h", "mass_of_weights", "i += 2 * kLanes")
ROUGH = Wanted(
    "largest and rough sum of logits",
    "rough-inl.h",
    "scan_maxima_and_weigh",
    "i += kLanes",
    exponential=True,
    loads=16,
)
# Both are the same lines, of all dtypes; what is measured is the dearest of those for float32.
SUM = "float_sum-inl.h", "sum_of_tile", "i += 4 * kLanes", 64
ROW_SUM = Wanted("sum of probabilities", *SUM, loads=64, inlined_in="share_of_probability")
EXCESS = Wanted("residual in floats", *SUM, inlined_in="ExcessIff")
RESIDUAL = Wanted("residual of weights", "residual-inl.h", "kept_of_tile", "any_ge(doubt", 16)
LIKE_RESIDUAL = Wanted(
    "residual of like rows", "residual-inl.h", "kept_of_like_tile", "i += kLanes", 16
)

# Each loop with the ops that run it.
LOOPS = {
    LARGEST: "all",
    Wanted("where it is", "reduce-inl.h", "first_maximum", "if (equal) return"): "one tile a row",
    Wanted("tiles that reach a floor", "reduce-inl.h", "for_each_from", "!tile_reaches", 512): (
        "sample, filter_logits, verify"
    ),
    Wanted("zero bytes of noise", "philox-inl.h", "list_zero_bytes", "tiles * kTile", 128): (
        "sample"
    ),
    ROUGH: "verify",
    WEIGHTS: "sample (top-p), verify at a rejection",
    MASS: "sample (top-p), verify at a rejection, accept at the end",
    Wanted("the same, and above a logit", "mass-inl.h", "tile_mass_from", "i += kLanes"): (
        "sample (top-p)"
    ),
    Wanted("quotients before a cut", "filter-inl.h", "write_from", "i += kLanes", 16): (
        "filter_logits"
    ),
    ROW_SUM: "accept",
    ROW_WEIGHTS: "accept, at the end",
    EXCESS: "verify and accept, at a rejection",
    RESIDUAL: "verify and accept, where floats do not tell",
    LIKE_RESIDUAL: "accept, normalized, where floats do not tell",
}


class Course(NamedTuple):
    """What an op does on one path: rows it reads, and passes over a row by loop."""

    op: str
    what: str
    rows: int
    passes: dict


def ending(drafts, rejected_at):
    return f"rejected at {rejected_at}" if rejected_at < drafts else "all accepted"


def verify_greedy(drafts, rejected_at):
    rows = rejected_at + 1
    return Course("verify_greedy", ending(drafts, rejected_at), rows, {LARGEST: rows})


def accept(drafts, rejected_at, normalized):
    """The draft is rejected at a position, or nowhere if that is `drafts`: then the last row of the
    target follows alone."""
    rejected = rejected_at < drafts
    rows = 2 * (rejected_at + 1) if rejected else 2 * drafts + 1
    passes = {EXCESS: 1} if rejected else {ROW_WEIGHTS: 1, MASS: 1}
    if not normalized:
        passes[ROW_SUM] = 2 * min(rejected_at + 1, drafts)  # floats judge the drafts
        passes.update({} if rejected else {LARGEST: 1})
    read = rows if not normalized else 2 if rejected else 1
    what = ending(drafts, rejected_at) + (", normalized" if normalized else "")
    return Course("accept", what, read, passes)


def paths(drafts):
    ends = (0, drafts // 2, drafts)
    yield from (verify_greedy(drafts, end) for end in ends)
    for normalized in (False, True):
        yield from (accept(drafts, end, normalized) for end in ends)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def loop_table(measured):
    head = ["inner loop", "run by", "instructions", *(f"cycles, {b.processor}" for b in BOARDS)]
    rows = [
        [
            wanted.title,
            LOOPS[wanted],
            f"{found.instructions:.2f}",
            *(f"{found.cycles[board.processor]:.2f}" for board in BOARDS),
        ]
        for wanted, found in measured.items()
    ]
    return table(head, rows)


def bounds(measured, board):
    """Rows of the table of one board."""
    for vocab, drafts in SHAPES:
        for path in paths(drafts):
            cycles = sum(
                count * measured[loop].cycles[board.processor]
                for loop, count in path.passes.items()
            )
            compute = cycles * vocab / board.gigahertz / 1e3
            size = 4 * path.rows * vocab
            memory = size / board.bandwidth / 1e3
            published = PUBLISHED[path.op, board.name][SHAPES.index((vocab, drafts))]
            yield [
                *(path.op, path.what, vocab, drafts, f"{size / 1e6:.2f}"),
                *(f"{compute:.0f}", f"{memory:.0f}", f"{max(compute, memory):.0f}", published),
            ]


def report(boards):
    functions = assembly()
    processors = [board.processor for board in boards]
    measured = {wanted: measure(functions, wanted, processors) for wanted in LOOPS}
    head = ["op, one sequence", "path", "V", "K", "MB read", "loops, us", "memory, us"]
    parts = [
        "# What g++ made of the neon target\n",
        "## Inner loops, a token, float32 rows\n",
        loop_table(measured),
    ]
    for board in boards:
        parts += [
            f"## {board.name}: {board.gigahertz} GHz, {board.bandwidth:.1f} GB/s\n",
            table([*head, "at least, us", "published, us"], bounds(measured, board)),
        ]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bandwidth", type=float, nargs=2, metavar=("PI5", "PI4"))
    arguments = parser.parse_args()
    boards = BOARDS
    if arguments.bandwidth:
        boards = [b._replace(bandwidth=gbs) for b, gbs in zip(BOARDS, arguments.bandwidth)]
    print(report(boards))


if __name__ == "__main__":
    main()
