# SPDX-License-Identifier: Apache-2.0
"""Whether csrc/common/ gives the same bits on every backend, as a table.

    python tests/bits/compare.py [--inputs 1e7] [--backends baseline,avx2,aarch64,ptx]
                                 [--gumbel-words 2**24 | all] [--logs FOLDER] [--freeze]

The first backend is the one the others are compared with. Hashes of chunks are kept in the logs: a
run that was stopped goes on where it was. PTX2CPP=script names the translator that `ptx` needs.
"""

import argparse
import sys
import time
from pathlib import Path

import backends

CHUNK = 2**16
SWEEP_CHUNK = 2**24
SWEEPS = {"gumbel_words": 2**32, "gumbel_ends": 10 * 2**24}
FROZEN = backends.HERE.parent / "frozen_bits.py"


def count(text):
    """2**20, 1e7 and 10000000 are counts."""
    base, power, exponent = text.partition("**")
    return int(base) ** int(exponent) if power else int(float(text))


def chunks_of(function, options):
    """(number of chunks, size of a chunk) that cover what was asked for."""
    if function not in SWEEPS:
        return -(-options.inputs // CHUNK), CHUNK
    if options.gumbel_words == "all":
        return SWEEPS[function] // SWEEP_CHUNK, SWEEP_CHUNK
    return -(-min(count(options.gumbel_words), SWEEPS[function]) // CHUNK), CHUNK


def hashes(driver, function, chunks, size, log):
    """The hash of each chunk, from the log as far as it goes."""
    known = [line for line in log.read_text().split() if len(line) == 16] if log.exists() else []
    known = known[:chunks]
    with log.open("w") as file:
        file.writelines(f"{line}\n" for line in known)
        file.flush()
        if len(known) == chunks:
            return known
        for line in driver.lines("hashes", function, len(known) * size, chunks - len(known), size):
            known.append(line)
            file.write(f"{line}\n")
            file.flush()
    return known


def first_difference(drivers, function, chunk, size):
    """The first check of the chunk on which two drivers differ."""
    lines = [driver.lines("hashes", function, chunk * size, size, 1) for driver in drivers]
    return chunk * size + next(i for i, (a, b) in enumerate(zip(*lines)) if a != b)


def compare(drivers, function, options, logs):
    """One row of the table, and whether all are the same."""
    chunks, size = chunks_of(function, options)
    cells, expected = [f"{function:15}", f"{chunks * size:>10}"], None
    same = True
    for name, driver in drivers.items():
        start = time.time()
        found = hashes(driver, function, chunks, size, logs / f"{name}-{function}-{size}.log")
        seconds = time.time() - start
        expected = expected or found
        verdict = "same" if driver is not next(iter(drivers.values())) else "reference"
        if found != expected:
            chunk = next(i for i in range(chunks) if found[i] != expected[i])
            pair = next(iter(drivers.values())), driver
            verdict = f"DIFFERS at {first_difference(pair, function, chunk, size)}"
            same = False
        cells.append(f"{verdict} {seconds:.0f}s".rjust(16))
    print(" ".join(cells), flush=True)
    return same


def within_bounds(driver, options):
    """Print the Gumbel's extremes over the sweeps (least, greatest, greatest with a coarse byte
    that is not zero); whether they keep to the bounds that pruning uses."""
    kept = True
    for function in SWEEPS:
        chunks, size = chunks_of(function, options)
        pairs = [line.split() for line in driver.lines("extremes", function, 0, chunks * size)]
        for (extreme, bound), limit in zip(pairs, ("lower", "upper", "upper")):
            inside = (
                float(bound) < float(extreme) if limit == "lower" else float(extreme) < float(bound)
            )
            print(f"{function}: extreme {extreme}, {limit} bound {bound}", flush=True)
            kept &= inside
    return kept


def freeze(driver):
    """Rewrite the frozen hashes, whose file says what they are."""
    lines = []
    for function in driver.lines("names"):
        checks = 2**24 if function == "gumbel_words" else 2**20
        (frozen,) = driver.lines("hashes", function, 0, 1, checks)
        lines.append(f'    "{function}": ({checks}, "{frozen}"),\n')
    preface = FROZEN.read_text().partition("HASHES")[0]
    FROZEN.write_text(preface + "HASHES = {\n" + "".join(lines) + "}\n")


def built(names):
    """The drivers that can be had, and a line for each that cannot."""
    drivers = {}
    for name in names:
        try:
            drivers[name] = backends.BACKENDS[name]()
        except backends.Unavailable as reason:
            print(f"{name}: skipped: {reason}", flush=True)
    return drivers


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=count, default=10**7)
    parser.add_argument("--backends", type=lambda text: text.split(","), default=backends.BACKENDS)
    parser.add_argument("--gumbel-words", default="2**24")
    parser.add_argument("--logs", type=Path, default=backends.FOLDER / "logs")
    parser.add_argument("--freeze", action="store_true")
    options = parser.parse_args()

    logs = options.logs / backends.source_digest()
    logs.mkdir(parents=True, exist_ok=True)
    drivers = built(options.backends)
    if not drivers:
        sys.exit("no backend to compare")
    print(" ".join([f"{'function':15}", f"{'inputs':>10}", *(f"{d:>16}" for d in drivers)]))
    reference = next(iter(drivers.values()))
    rows = [compare(drivers, name, options, logs) for name in reference.lines("names")]
    same = all(rows) and within_bounds(reference, options)
    if options.freeze:
        if not same or set(drivers) != set(backends.BACKENDS):
            sys.exit("hashes are frozen only where all backends agree")
        freeze(reference)
    sys.exit(not same)


if __name__ == "__main__":
    main()
