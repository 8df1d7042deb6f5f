# SPDX-License-Identifier: Apache-2.0
"""What is counted of which kernel, and the budgets: instructions a token, bytes in flight an SM."""

import re
from collections import Counter
from dataclasses import dataclass

from . import compile as toolchain
from . import path, sass
from .source import functions_of

TOKENS_A_THREAD = 16
THREADS = 256

# Kernels by source. Those of CUB stand beside ours in segmented_sort.
KERNELS = {
    "scan": ("scan_kernel",),
    "bins": ("bin_kernel",),
    "mass": ("mass_kernel",),
    "filter": ("write_kernel",),
    "sample": ("sample_kernel",),
    "cuts": ("cut_kernel",),
    "judge": ("pick_kernel",),
    "block": ("reach_kernel",),
    "pairs": ("pair_kernel",),
    "segmented_sort": ("key_kernel", "walk_kernel"),
    "verify": ("follow_kernel",),
    "logprobs": ("strip_kernel", "logprob_kernel"),
}
# Every token of every row goes through these.
PASSES = ("scan_kernel", "bin_kernel", "mass_kernel", "write_kernel", "strip_kernel")

# Functions that few tokens, or few rows, come to. With an opcode: their blocks that have it.
RARE = (
    "load_some",  # the row's last chunk, and rows of which few tiles matter
    "leave_out",
    "load_16_bits",  # 16-bit rows
    "mark_history",
    "penalise_all",
    "for_those",  # of a lane's tokens, as a loop
    "resolve_all",  # rows that hold +inf
    "drop_ties",  # the one strip in which a cut's class of equals ends
    "divide_extraordinary",
    "scale_rounded",
    "push",  # of a token that may win
    "fixed_point",  # rows of probabilities
    "probability_mass",
    ("probability_tile", "SHFL"),
)


@dataclass(frozen=True)
class Pass:
    """A way through a kernel that gives each thread 16 tokens."""

    title: str
    kernel: str
    parts: dict  # function -> part
    rare: tuple = ()  # besides RARE
    never: tuple = ()
    budget: tuple = ()  # (parts that count, instructions a token that are aimed at)
    most: float = (
        0.0  # what they may be until then: an upper bound, as path.py takes the longer way
    )

    def __str__(self):
        return self.title.replace(" ", "_")


# The part that one warp of the block does for all of it: the first, unless said.
ONE_WARP = "one warp"

LOAD = {"load_chunk": "load", "settle": "load"}
MAXIMA = {
    **LOAD,
    "find_maxima": "maxima",
    "keep_maxima": "maxima",
    "read_parameters": ONE_WARP,
}
NOISE = {
    **MAXIMA,
    "find_zero_bytes": "noise",
    "marked_key": "noise",
    "largest_marked": "noise",
    "list_reaching": "noise",
    "draw_chunk": "noise",
    # The warp with the chunk's largest logit; others help in few chunks (test_cuda_counted.py).
    "place_of_largest": ONE_WARP,
    "score_first": ONE_WARP,
    "score_rest": ONE_WARP,
}
MASSES = {
    **LOAD,
    "keep_masses": "masses",
    "tile_mass": "masses",
    "drop": "masses",
    "find_law": ONE_WARP,
    "is_last": ONE_WARP,
    "judge_position": ONE_WARP,
}
PAIRS = {**LOAD, "keep_sums": "sums", "drop": "cut", "find_pair": ONE_WARP}
BINS = {**LOAD, "mass": "bins", "bin_of": "bins", "add": "bins", "find_scales": ONE_WARP}
QUOTIENTS = {**LOAD, "divide_all": "quotients", "kept": "quotients", "find_cut": ONE_WARP}
# What the scan does besides where log-probabilities are asked for.
STRIPS = ("strip_mass", "strip_from", "keep_strip")
PASS_LIST = (
    Pass(
        "maxima",
        "scan_kernel",
        MAXIMA,
        (),
        ("find_zero_bytes", "draw_chunk", *STRIPS),
        (("maxima",), 5),
        4,
    ),
    Pass("maxima and draw", "scan_kernel", NOISE, (), STRIPS, (("noise",), 9), 8.5),
    Pass("masses", "mass_kernel", MASSES, ("drop",), (), (("masses",), 24), 20.5),
    Pass("masses under a cut", "mass_kernel", MASSES, (), (), (("masses",), 24), 23),
    # Of a token of both rows: their two masses, and on which side of the rule it stands.
    Pass("pairs", "pair_kernel", PAIRS, ("drop", "sum_unsure"), (), (("sums",), 60), 75),
    Pass("bins", "bin_kernel", BINS),
    Pass("quotients", "write_kernel", QUOTIENTS),
)


@dataclass(frozen=True)
class Card:
    """A GPU with the bytes that must be in flight on an SM to use its memory: twice its bandwidth
    times 700 ns over its SMs."""

    name: str
    architecture: int
    need: int

    def __str__(self):
        return self.name


CARDS = (Card("A100", 80, 22000), Card("A10", 86, 12000), Card("L4", 89, 7000))
CARDS += (Card("H100", 90, 36000), Card("H200", 90, 51000))

# Of an SM: threads, blocks, bytes of shared memory; all have 65536 registers in four parts.
LIMITS = {
    80: (2048, 32, 164 << 10),
    86: (1536, 16, 100 << 10),
    89: (1536, 24, 100 << 10),
    90: (2048, 32, 228 << 10),
}


def resident_blocks(resources, architecture, threads=THREADS):
    """How many blocks of a kernel an SM holds."""
    most_threads, most_blocks, shared = LIMITS[architecture]
    a_warp = -(-resources.registers // 8) * 8 * 32
    warps = 4 * ((65536 // 4) // a_warp)
    by_shared = shared // (-(-resources.shared // 128) * 128 + 1024)  # 1 kB is the system's
    return min(warps // (threads // 32), most_threads // threads, most_blocks, by_shared)


def bytes_in_flight(resources, architecture, element):
    """What the loads of an SM's blocks ask for, before the first of them is used."""
    blocks = resident_blocks(resources, architecture)
    return blocks * THREADS * TOKENS_A_THREAD * element


def instructions_a_token(function, a_pass):
    """{part: Counter of pipes}, each over the 16 tokens of a thread."""
    taken = path.main_path(function, (*RARE, *a_pass.rare), a_pass.never)

    def share(part):
        return TOKENS_A_THREAD * (THREADS // 32 if part == ONE_WARP else 1)

    return {
        part: Counter({pipe: n / share(part) for pipe, n in pipes.items()})
        for part, pipes in path.count(taken, a_pass.parts).items()
    }


def total(counts, parts=None):
    """Instructions a token of some parts, or of all."""
    return sum(sum(pipes.values()) for part, pipes in counts.items() if not parts or part in parts)


@dataclass(frozen=True)
class Kernel:
    name: str
    architecture: int
    resources: toolchain.Resources
    function: sass.Function
    called: dict  # what ptxas put beside it: name -> Function


def kernels_of(code, names):
    """The kernels of a compiled source, by name."""
    found = {}
    for mangled, resources in code.resources.items():
        name = next((n for n in names if mangled == n or f"{len(n)}{n}" in mangled), None)
        if name:
            functions = sass.parse(section(code.listing, mangled))
            function = functions.pop(mangled)
            found[name] = Kernel(name, code.architecture, resources, function, functions)
    return found


def section(listing, mangled):
    """The part of the listing that holds one kernel and what ptxas put beside it."""
    head = f"\t.section\t.text.{mangled},"
    start = listing.index(head)
    end = listing.find("\n//-----", start)
    return listing[start : end if end >= 0 else None]


def where(instruction):
    """The functions that it was inlined from, as "kernel < ... < innermost"."""
    return " < ".join(functions_of(instruction)[::-1])


def faults(kernel):
    """{what a kernel should do without: [instruction]}"""
    all_ = [*kernel.function.instructions]
    for function in kernel.called.values():
        all_ += function.instructions
    return {
        "call": [each for each in all_ if each.is_call()],
        "mufu": [each for each in all_ if sass.pipe(each.opcode) == "mufu"],
        "fp64": [each for each in all_ if sass.pipe(each.opcode) == "fp64"],
        "cas": [each for each in all_ if each.is_cas()],
        "local memory": [each for each in all_ if each.is_local_memory()],
    }


def in_loops(kernel, instructions):
    """Those that stand in a loop of the kernel."""
    inside = set(kernel.function.loop_instructions())
    return [each for each in instructions if each in inside]


def of_a_warp_together(kernel, instructions):
    """Those that a warp comes to even if its lanes are together where a collective asks."""
    blocks = kernel.function.blocks
    reached = {each for place in kernel.function.reachable() for each in blocks[place].instructions}
    return [each for each in instructions if each in reached]


def of_warp_collectives(calls):
    """The calls of what ptxas puts beside a kernel for lanes that have come apart."""
    pattern = re.compile(r"\$__internal_\d+_\$__cuda_(sm70_(shfl|vote|match|warp)|redux)sync")
    return [each for each in calls if pattern.match(each.target)]
