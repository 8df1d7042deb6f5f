# SPDX-License-Identifier: Apache-2.0
"""Breaks the CUDA sources one small way at a time, and shows that the tests notice.

    python tests/cuda_mutations.py            # all of them; minutes
    python tests/cuda_mutations.py barrier    # those whose name holds this

Each mutant is built like the library itself and run by the emulator on the short round of calls
below. It must end in a violation, or in bits that are not the CPU's. Exit status 1 if one survives.
"""

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS / "bits"), str(TESTS.parent / "packaging")]

import torch
from cases import FILTERS, rows
from cuda_emulator import build, library
from native_library import ROOT, digest
from test_cuda_same_bits import round_of, rows_at_the_quota


class Mutation(NamedTuple):
    name: str
    file: str
    right: str  # found once in the file
    wrong: str


MUTATIONS = [
    Mutation(
        "a dropped barrier",
        "draw.cuh",
        "list_reaching(scratch.reach, x, scratch);\n  __syncthreads();",
        "list_reaching(scratch.reach, x, scratch);",
    ),
    Mutation(
        "a floor that forgets the noise",
        "draw.cuh",
        "logit_floor(noise_floor(best.score.high), scratch.temperature.value)",
        "logit_floor(best.score.high, scratch.temperature.value)",
    ),
    Mutation(
        "an index off by one",
        "filter.cu",
        "if (token < vocab) out[token]",
        "if (token <= vocab) out[token]",
    ),
    Mutation(
        "< for <= where the running sum crosses",
        "reduce.cuh",
        "if (before + weight >= need) break;",
        "if (before + weight > need) break;",
    ),
    Mutation(
        "a tie too many",
        "select.cuh",
        "return {y, find_tie(candidates, y, need, scratch) + 1};",
        "return {y, find_tie(candidates, y, need, scratch) + 2};",
    ),
    Mutation(
        "a float mass in a histogram",
        "reduce.cuh",
        "return uint64_t(high[place]) << 32 | low[place];",
        "return uint64_t(float(uint64_t(high[place]) << 32 | low[place]));",
    ),
    Mutation(
        "a lost carry",
        "reduce.cuh",
        "uint32_t(x >> 32) + (before + more < before)",
        "uint32_t(x >> 32)",
    ),
    Mutation(
        "one block writing another's slot",
        "row.cuh",
        "tile < group.tiles()) of_row[tile] = mine;",
        "tile < group.tiles()) of_row[tile % kTilesPerChunk] = mine;",
    ),
    Mutation(
        "a product for a quotient",
        "filter.cu",
        "x[j] = quotient_of_ordinary(x[j], by.value, by.reciprocal);",
        "x[j] *= by.reciprocal;",
    ),
    Mutation(
        "the residual of the wrong position",
        "pairs.cu",
        "const RowId id = row_id(target, sequence, end.position);",
        "const RowId id = row_id(target, sequence, 0);",
    ),
    Mutation(
        "a test with the word of the token behind it",
        "judge.cu",
        "fractions(p.round, id.sequence, id.position - 1)",
        "fractions(p.round, id.sequence, id.position)",
    ),
    Mutation(
        "a share one token late",
        "block.cu",
        "if (position > 0) {\n      share",
        "if (position > 1) {\n      share",
    ),
    Mutation(
        "what nearly agrees counts nothing",
        "pairs.cu",
        "if (unsure) sum",
        "if (unsure && !unsure) sum",
    ),
    Mutation(
        "a tile of little mass left out of the residual",
        "pairs.cu",
        "return mass[t] != 0;",
        "return mass[t] >> 42 != 0;",
    ),
    Mutation(
        "a tile of each strip left out of what a cut keeps",
        "mass.cu",
        "kept_tiles(group, at, scratch.row, scratch.law.cut) : kAllTiles",
        "kept_tiles(group, at, scratch.row, scratch.law.cut) & 7 : kAllTiles",
    ),
    Mutation(
        "a ticket without its acquire",
        "mass.cu",
        "arrived.fetch_add(1, ::cuda::memory_order_acq_rel)",
        "arrived.fetch_add(1, ::cuda::memory_order_relaxed)",
    ),
    Mutation(
        "a bin that ends where the next begins",
        "bins.cuh",
        "const float lower = scale.max - (float(bin) + 0.5625f) * scale.width;",
        "const float lower = scale.max - float(bin) * scale.width;",
    ),
    Mutation(
        "a history one token short",
        "scan.cu",
        "i < count; i += kThreads) {\n    const int64_t id",
        "i < count - 1; i += kThreads) {\n    const int64_t id",
    ),
    Mutation(
        "strips that are not brought to the row's largest logit",
        "logprobs.cu",
        "sum += mass_in_row(strip[s], max, scale);",
        "sum += strip[s].mass;",
    ),
]


def calls():
    """Name -> what is called on a package. They take each kernel through its ways."""
    x, ties = rows("normal", 2, 4097), rows("ties", 2, 999)
    seen = {"repetition_penalty": 1.3, "prev_tokens": torch.arange(24).view(2, 12)}
    target, draft, tokens = round_of(3, 2, 999)
    near = target[:, :2] * (1 + 1e-7 * torch.randn(3, 2, 999, generator=torch.manual_seed(1)))
    words = torch.full((3, 3), -1)  # the largest fraction: rejects what is not surely accepted
    block = round_of(40, 3, 31)
    likely = round_of(20, 2, 999)[:2]
    likely += (likely[1].argmax(-1),)
    quota, share = rows_at_the_quota()
    return {
        "draw": lambda p: p.sample(x, seed=1, temperature=0.7),
        "short": lambda p: p.sample(rows("normal", 16, 31), seed=1),
        "nucleus": lambda p: p.sample(x, seed=1, top_p=0.5),
        "chain": lambda p: p.sample(x, seed=1, **FILTERS["chain"]),
        "kept": lambda p: p.filter_logits(x, **FILTERS["chain"]),
        "history": lambda p: p.filter_logits(x, **seen),
        "cut": lambda p: p.filter_logits(ties, top_p=0.5),
        "unit": lambda p: p.filter_logits(quota, top_p=share),
        "flat": lambda p: p.filter_logits(rows("constant", 1, 4097), top_p=0.5),
        "verify": lambda p: p.verify(target, draft, tokens, seed=3)[1],
        "filtered": lambda p: p.verify(*likely, seed=3, top_k=9)[1],
        "near": lambda p: p._verify_with_words(target, near, tokens, words)[1],
        "block": lambda p: p.verify(*block, seed=3, method="block")[1],
        "greedy": lambda p: p.verify_greedy(target, tokens)[1],
        "logprobs": lambda p: p.sample(x, seed=1, return_logprobs=True)[1].unfiltered,
    }


def mutant(mutation):
    """The library's Sources with the mutated file in its place. All mutants lie in one folder, so
    that what one has built of the right files serves the next."""
    csrc = ROOT / ".build" / "mutant" / "csrc"
    shutil.rmtree(csrc, ignore_errors=True)
    shutil.copytree(ROOT / "csrc", csrc)
    path = csrc / "cuda" / mutation.file
    text = path.read_text()
    if text.count(mutation.right) != 1:
        raise SystemExit(f"{mutation.name}: {mutation.file} holds {mutation.right!r} not once")
    path.write_text(text.replace(mutation.right, mutation.wrong))
    sources = build.project()
    return dataclasses.replace(
        sources,
        namespace=f"{sources.namespace}_{digest(mutation.name)}",
        cuda=tuple(csrc / "cuda" / source.name for source in sources.cuda),
        includes=tuple(csrc if i == ROOT / "csrc" else i for i in sources.includes),
    )


def noticed(package, wanted):
    """How the first call that tells the mutant from the CPU does so, or None."""
    for name, call in calls().items():
        try:
            if not torch.equal(call(package), wanted[name]):
                return f"{name}: other bits"
        except (library.EmulatorViolation, RuntimeError) as error:
            return f"{name}: {str(error).splitlines()[0][:200]}"
    return None


def main(pattern=""):
    right = library.load("8.0")
    wanted = {name: call(right.package) for name, call in calls().items()}
    survivors = []
    for mutation in MUTATIONS:
        if pattern not in mutation.name:
            continue
        how = noticed(library.load("8.0", mutant(mutation)).package, wanted)
        print(f"{mutation.name}: {how or 'SURVIVES'}", flush=True)
        survivors += [] if how else [mutation.name]
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
