# SPDX-License-Identifier: Apache-2.0
"""Whole public calls beside the eager torch code they replace, and that code under torch.compile,
as a Markdown table: `python benchmarks/compiled_chain.py --only sample`.

Each eager function is compiled for the shapes it is timed at, and called until nothing is compiled
any more. The seconds which that takes have a column of their own: they are no part of the times,
and few where torch's cache on disk has the code from an earlier run. Compiling needs g++ and
Python's headers; a row that cannot be compiled says why. First eager, then compiled code is timed
in turn with ours; medians are given.
"""

import argparse
import logging
import time

import torch
from cases import cases
from table import load, medians, processor

WARM_UP = 2  # calls: the first compiles, the second may do so again for what the first returned


def compiled(eager):
    """(the compiled function, seconds until it is), or (None, why it is not, in a line)."""
    torch._dynamo.reset()
    call = torch.compile(eager, dynamic=False)
    start = time.perf_counter()
    try:
        for _ in range(WARM_UP):
            call()
    except Exception as error:  # whatever the compilers below torch raise
        reason = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        return None, f"not compiled: {type(error).__name__}: {reason.strip()}"
    return call, time.perf_counter() - start


def row(what, vocab, ours, eager, runs):
    """A line of the table."""
    call, took = compiled(eager)
    mine, plain = medians(ours, eager, runs)
    cells = f"{what} | {vocab} | {mine:.1f} | {plain:.0f} | {plain / mine:.1f}x"
    if call is None:
        return f"| {cells} | {took} | | | |"
    mine, theirs = medians(ours, call, runs)
    return f"| {cells} | {mine:.1f} | {theirs:.0f} | {theirs / mine:.1f}x | {took:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--vocab", type=int, nargs="+", default=[32000, 128256])
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    # That int(...) of a tensor divides the graph of eager `accept` need not be told each time.
    torch._logging.set_logs(dynamo=logging.ERROR)
    sdo = load()
    print(f"{processor()}, torch {torch.__version__}, {arguments.threads} thread(s)\n")
    columns = [
        "ours, us",
        "eager, us",
        "ratio",
        "ours, us",
        "compiled, us",
        "ratio",
        "compiling, s",
    ]
    print(f"| op, one sequence | V | {' | '.join(columns)} |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for vocab in arguments.vocab:
        for what, ours, eager in cases(sdo, vocab):
            if what.startswith(arguments.only):
                print(row(what, vocab, ours, eager, arguments.runs), flush=True)


if __name__ == "__main__":
    main()
