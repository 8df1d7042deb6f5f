# SPDX-License-Identifier: Apache-2.0
"""Whole public calls beside eager torch, as a Markdown table, and with --json as data: `python
benchmarks/table.py --json FILE`.

Ours and eager take turns, so that a change of the machine's speed hits both. A turn is one untimed
call, so that data and code are in cache, and then calls for two milliseconds, or one call. Medians
of a side's calls are printed; their ratio is what to quote.
"""

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path

import kernels
import torch
from cases import cases

ROOT = Path(__file__).resolve().parent.parent


TURN = 2e-3  # seconds


def one_turn(call):
    """The microseconds that each call took."""
    call()
    times, end = [], time.perf_counter() + TURN
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return times


def medians(ours, eager, turns):
    times = [], []
    for _ in range(turns):
        for call, taken in zip((ours, eager), times):
            taken += one_turn(call)
    return tuple(map(statistics.median, times))


def processor():
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else platform.machine()


def load():
    """The package as it is in build/."""
    os.environ.setdefault("LOCAL_KERNELS", f"phanerozoic/spec-decode-ops={ROOT}")
    return kernels.get_kernel(
        "phanerozoic/spec-decode-ops", version=1, trust_remote_code=True, backend="cpu"
    )


def machine(sdo, threads):
    """What a time depends on."""
    return {
        "cpu": processor(),
        "target": sdo._cpu_target(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": threads,
        "date": time.strftime("%Y-%m-%d"),
    }


def write(path, results):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab", type=int, nargs="+", default=[32000, 128256])
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    sdo = load()
    here, rows = machine(sdo, arguments.threads), []
    print(
        f"{here['cpu']}, torch {here['torch']}, {arguments.threads} thread(s), "
        f"target {here['target']}, float32 rows of randn * 3 unless said, medians of "
        f"{arguments.runs} interleaved turns\n"
    )
    print("| op, one sequence | V | ours, us | eager, us | ratio |")
    print("|---|---|---|---|---|")
    for vocab in arguments.vocab:
        for what, ours, eager in cases(sdo, vocab):
            mine, theirs = medians(ours, eager, arguments.runs)
            rows.append({"what": what, "vocab": vocab, "ours_us": mine, "eager_us": theirs})
            print(f"| {what} | {vocab} | {mine:.1f} | {theirs:.0f} | {theirs / mine:.1f}x |")
    if arguments.json:
        write(arguments.json, {"machine": here, "runs": arguments.runs, "rows": rows})


if __name__ == "__main__":
    main()
