# SPDX-License-Identifier: Apache-2.0
"""What the GPU time of a call ought to be, from bytes, instructions, launches and waiting. Nothing
here was measured on a GPU. `python benchmarks/model.py` prints a table for each card.

A call is a chain of launches. One of them takes

    LAUNCH + wait + max(DRAM bytes / rate, L2 bytes / rate, the busiest SM's instructions / rate,
                        wait * (waves - 1))

where `wait` is what one block cannot hide: loads that need each other's results, barriers,
shuffles; and a wave is as many blocks as the card has room for. Of a block that does a whole row
the wait is the whole of its serial work, so that only instructions beyond it count.

Rows are those of `torch.randn(V) * 3`, of which top-k leaves few candidates, and of which few
tokens lie near the end of top-p's nucleus.
"""

import argparse
import math
from dataclasses import dataclass

from model_cards import CARDS

# ---- The kernels: csrc/cuda/policy.cuh ----

CHUNK, TILE, WARPS = 4096, 128, 8
THREADS = 32 * WARPS
BLOCKS_ON_SM = 4  # by registers; fewer if they take too much shared memory
CHUNK_KB, FINISH_KB = 13, 36
TILES_AT_ONCE = 4  # that a warp looks at in select.cuh

# Instructions a thread spends on a token of a float32 row in each pass, all of its block's work
# included: those of the PTX for compute_80, as the emulator counted them over a row of 131072
# tokens (tests/test_model.py counts again). PTX has moves that ptxas drops: its code for sm_90 has
# 0.80 to 0.93 as many instructions in the files of these kernels.
INSTRUCTIONS = {
    "maxima": 10.9,
    "draw": 29.9,
    "penalty": 14.9,
    "mass": 40.0,
    "bins": 75.0,
    "write": 62.0,
    "pair": 62.0,  # of both rows
}
TO_WIDEN = 5.2  # a 16-bit value
WEIGHT = 228.0  # at most, of one in the residual that a token is drawn from, in wide integers
VISIT = 20.0  # of one that the finish looks at in the row itself
SASS_PER_PTX = 0.9
ISSUE = 0.6 * 4  # instructions an SM issues in a cycle, of four at most

# ---- Waiting, in cycles unless said; assumed, near what is known of these architectures ----

LAUNCH = 2.0  # us from one kernel of a graph to the next that depends on it
DRAM = 0.7  # us of a load that misses L2
L2 = 280  # of a load that hits it
BARRIER, SHUFFLE, SHARED, ATOMIC, DIVIDE = 40, 25, 30, 60, 60
GUMBEL = 600  # of one token: its noise by Philox, two logarithms, a division
WARP_BEST = 3 * SHUFFLE  # as long as a reduction
BLOCK_BEST = 2 * WARP_BEST + 2 * BARRIER + 2 * SHARED
BLOCK_SUM = 10 * SHUFFLE + 2 * BARRIER + WARPS * SHARED
# One digit of a radix selection but for the visit of what is selected from: clearing the sums, a
# warp's prefix sum over 256 of them, a walk of up to 8, four barriers.
DIGIT = 4 * BARRIER + 10 * SHUFFLE + 26 * SHARED

# ---- What is predicted ----

ITEM = {"float32": 4, "bfloat16": 2}
DRAFTS = 4
PLAIN = {"temperature": 0.8}
FULL = {**PLAIN, "top_k": 50, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.1}
OPS = {
    "sample, unfiltered": PLAIN,
    "sample, top-k": {**PLAIN, "top_k": 50},
    "sample, top-p only": {**PLAIN, "top_p": 0.95},
    "sample, full": FULL,
    "filter_logits, full": FULL,
    "filter_logits, top-p only": {**PLAIN, "top_p": 0.95},
    "verify, k=4": PLAIN,
    "verify, k=4, coupled": PLAIN,
}
VOCABS = (50257, 128256, 151936, 262144)
ROWS = (1, 8, 64, 256)  # of verify: sequences


@dataclass(frozen=True)
class Launch:
    """What a kernel does: instructions of PTX by block, counted by warp; bytes of rows that it is
    the first to read, that were read before, and that it writes."""

    name: str
    blocks: int
    shared_kb: int
    instructions: float
    cycles: float  # that a block waits
    serial: bool = False  # the cycles are those in which the instructions are issued
    first_read: float = 0.0
    read_again: float = 0.0
    written: float = 0.0


def rounds(vocab, share):
    return math.ceil(vocab / share)


def pass_over_rows(name, rows, vocab, dtype, instructions, cycles, **traffic):
    """A block a chunk; its tokens are all loaded before the first is used."""
    a_token = instructions + (TO_WIDEN if dtype == "bfloat16" else 0.0)
    blocks = rows * rounds(vocab, CHUNK)
    a_block = a_token * CHUNK / 32  # the last of a row has fewer tokens, but no fewer instructions
    return Launch(name, blocks, CHUNK_KB, a_block, cycles, **traffic)


def row_bytes(rows, vocab, dtype):
    return rows * vocab * ITEM[dtype]


def scan(rows, vocab, dtype, filters, draws):
    instructions = INSTRUCTIONS["maxima"]
    cycles = L2 + 4 * 3 * SHUFFLE + BARRIER
    if "repetition_penalty" in filters:
        instructions += INSTRUCTIONS["penalty"]
        cycles += L2 + ATOMIC + 3 * BARRIER
    if draws:
        instructions += INSTRUCTIONS["draw"]
        cycles += 4 * BARRIER + 2 * (L2 + DIVIDE + GUMBEL + WARP_BEST) + 9 * SHARED + ATOMIC
    traffic = {"first_read": row_bytes(rows, vocab, dtype)}
    return pass_over_rows("scan", rows, vocab, dtype, instructions, cycles, **traffic)


def masses(rows, vocab, dtype):
    """Of rows whose round is not ended before them."""
    cycles = 4 * L2 + 2 * DIVIDE + 3 * BARRIER + 10 * SHUFFLE
    traffic = {"read_again": row_bytes(rows, vocab, dtype)}
    return pass_over_rows("mass", rows, vocab, dtype, INSTRUCTIONS["mass"], cycles, **traffic)


def bins(rows, vocab, dtype):
    cycles = 4 * L2 + 4 * DIVIDE + 3 * BARRIER + 10 * SHUFFLE + 4 * ATOMIC
    traffic = {"read_again": row_bytes(rows, vocab, dtype)}
    return pass_over_rows("bins", rows, vocab, dtype, INSTRUCTIONS["bins"], cycles, **traffic)


def write(rows, vocab, dtype):
    traffic = {
        "read_again": row_bytes(rows, vocab, dtype),
        "written": row_bytes(rows, vocab, "float32"),
    }
    return pass_over_rows("write", rows, vocab, dtype, INSTRUCTIONS["write"], 3 * L2, **traffic)


@dataclass(frozen=True)
class Selection:
    """What the one block of a row waits for while it selects and draws, and how often it looks at
    every token of the row."""

    cycles: float
    visits: int


def listed_selection(vocab, filters):
    """With top-k: a bound from the tiles' maxima, and candidates in shared memory."""
    tile_rounds = rounds(rounds(vocab, TILE), THREADS)
    bound = 4 * (DIGIT + tile_rounds * (L2 + ATOMIC))
    hit = filters["top_k"] / WARPS  # tiles of a warp
    looks = math.ceil(hit / TILES_AT_ONCE)
    collect = tile_rounds * L2 + looks * L2 + 2 * hit * ATOMIC + DIVIDE + 2 * BARRIER
    cycles = bound + collect + 4 * (DIGIT + ATOMIC) + GUMBEL + BLOCK_BEST
    if "top_p" in filters:
        cycles += BLOCK_SUM + 7 * (DIGIT + ATOMIC)
    if "min_p" in filters:
        cycles += 3 * BARRIER + ATOMIC
    return Selection(cycles, 0)


def bin_selection(vocab):
    """Top-p alone: the tokens near the nucleus' end are listed from all tiles that reach it."""
    looks = rounds(vocab, TILE) / WARPS / TILES_AT_ONCE
    collect = looks * (L2 + TILES_AT_ONCE * ATOMIC)
    return Selection(L2 + DIGIT + collect + BLOCK_SUM + 7 * (DIGIT + ATOMIC), 1)


def draw_again(filters, rows):
    """Top-p mostly keeps the token that was drawn; of many rows, some draw a chunk again."""
    once = CHUNK / THREADS * (L2 + DIVIDE) + GUMBEL + BLOCK_BEST
    return 2 * L2 + DIGIT + BLOCK_BEST + (1 - filters["top_p"] ** rows) * once


def finish(name, rows, vocab, filters, draws):
    """A block a row."""
    start = 3 * L2 + 5 * SHUFFLE
    visits = 0
    if "top_k" in filters:
        start += listed_selection(vocab, filters).cycles
    elif "top_p" in filters and draws:
        start += draw_again(filters, rows)
    elif "top_p" in filters:
        selection = bin_selection(vocab)
        start, visits = start + selection.cycles, selection.visits
    # A block of a row issues about one instruction a cycle, but where it goes over all tokens.
    instructions = start if not visits else visits * VISIT * vocab / 32
    return Launch(name, rows, FINISH_KB, instructions, start, serial=True)


def judgement(sequences, vocab, dtype):
    """The rounds' ends and their tokens, of unfiltered rows that are near to each other."""
    end = 6 * L2 + 2 * DIVIDE + 4 * BARRIER + 20 * SHUFFLE
    pair = row_bytes(2 * sequences, vocab, dtype)
    wait = end + 3 * L2 + 2 * BARRIER + 10 * SHUFFLE
    instructions = INSTRUCTIONS["pair"]
    sums = pass_over_rows("pair", sequences, vocab, dtype, instructions, wait, read_again=pair)
    pick_cycles = end + 2 * (16 * BARRIER + 8 * SHARED + 8 * SHUFFLE) + 4 * L2 + WEIGHT
    return [sums, Launch("pick", sequences, CHUNK_KB, pick_cycles, pick_cycles, serial=True)]


def launches(op, rows, vocab, dtype):
    """The chain of launches of a call."""
    filters = OPS[op]
    if op == "verify, k=4":
        every = rows * (2 * DRAFTS + 1)
        return [
            scan(every, vocab, dtype, filters, False),
            masses(every, vocab, dtype),
            *judgement(rows, vocab, dtype),
        ]
    shares_all = "top_p" in filters and "top_k" not in filters
    if op.startswith("filter_logits"):
        return [
            scan(rows, vocab, dtype, filters, False),
            *([bins(rows, vocab, dtype)] if shares_all else []),
            finish("cut", rows, vocab, filters, False),
            write(rows, vocab, dtype),
        ]
    if op == "verify, k=4, coupled":
        rows *= DRAFTS + 1
    from_all = "top_k" not in filters
    chain = [scan(rows, vocab, dtype, filters, from_all)]
    if shares_all:
        chain.append(bins(rows, vocab, dtype))
    chain.append(finish("finish", rows, vocab, filters, True))
    if op == "verify, k=4, coupled":
        chain.append(Launch("follow", 1, CHUNK_KB, 200, 2 * DRAFTS * L2, serial=True))
    return chain


def microseconds(card, launch, cold):
    """One launch. `cold`: its rows are not in L2 when the call begins."""
    bytes_read = launch.first_read + launch.read_again
    fits = bytes_read + launch.written <= 0.7 * card.l2_mb * 1e6
    from_dram = bytes_read if not fits else (launch.first_read if cold else 0.0)
    to_dram = 0.0 if fits else launch.written
    room = min(BLOCKS_ON_SM, card.shared_kb // launch.shared_kb)
    waves = math.ceil(launch.blocks / (card.multiprocessors * room))
    wait = launch.cycles / card.ghz / 1e3 + (DRAM if from_dram else 0.0)
    busiest = math.ceil(launch.blocks / card.multiprocessors) * launch.instructions * SASS_PER_PTX
    return (
        LAUNCH
        + wait
        + max(
            (from_dram + to_dram) / card.dram_gbs / 1e3,
            (bytes_read + launch.written) / card.l2_gbs / 1e3,
            busiest / ISSUE / card.ghz / 1e3 - (wait if launch.serial else 0.0),
            wait * (waves - 1),
        )
    )


def predict(card, op, rows, vocab, dtype, cold=False):
    """GPU microseconds of a call in a graph, by the model."""
    return sum(microseconds(card, each, cold) for each in launches(op, rows, vocab, dtype))


def bytes_needed(op, rows, vocab, dtype):
    """What any way to do it has to read and write once: of verify, all rows."""
    if op == "verify, k=4":
        return row_bytes(rows * (2 * DRAFTS + 1), vocab, dtype)
    if op == "verify, k=4, coupled":
        return row_bytes(rows * (DRAFTS + 1), vocab, dtype)
    written = row_bytes(rows, vocab, "float32") if op.startswith("filter_logits") else 0
    return row_bytes(rows, vocab, dtype) + written


def table(card, cold):
    where = "not in L2" if cold else "in L2 where they fit"
    lines = [
        f"{card.name}: predictions of a model, in us of a graph's GPU time; rows {where}",
        f"{'op':26} {'dtype':9} {'V':>7} " + " ".join(f"{f'M={rows}':>8}" for rows in ROWS),
    ]
    for op in OPS:
        for dtype in ITEM:
            for vocab in VOCABS:
                times = (predict(card, op, rows, vocab, dtype, cold) for rows in ROWS)
                cells = " ".join(f"{time:8.1f}" for time in times)
                lines.append(f"{op:26} {dtype:9} {vocab:7} {cells}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", choices=CARDS, nargs="+", default=list(CARDS))
    parser.add_argument("--warm", action="store_true", help="the rows are in L2 already")
    arguments = parser.parse_args()
    print("\n\n".join(table(CARDS[name], not arguments.warm) for name in arguments.card))


if __name__ == "__main__":
    main()
