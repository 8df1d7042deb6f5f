# SPDX-License-Identifier: Apache-2.0
"""One script for a machine with a GPU: `python benchmarks/gpu_check.py`, without a network.

Builds the CUDA library if it is not there; asks the frozen answers and the CPU's bits of it; runs
compute-sanitizer over a few calls, where that is installed and as far as there is time; times every
op, beside the model's prediction, a copy, and what others offer. Writes
benchmarks/results/<card>-<date>.{json,txt}.

Keeps to its minutes: the most important comes first, and what was left out is said. Exits with 1 if
a check failed or could not end, with 2 if there is no GPU.

--self-test goes through all of it on a CPU in small, to try the script: it gives no GPU times, and
writes only to a folder that --out names.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import gpu_inputs
import gpu_package
import gpu_report
import gpu_rivals
import gpu_stages
import model
import torch
from gpu_clock import CpuClock, GpuClock
from gpu_package import ROOT, kernel_layout
from gpu_stages import FAILED, SKIPPED, UNFINISHED, Budget, Outcome
from model_cards import card_named

RESULTS = ROOT / "benchmarks" / "results"
CHECKS_SHARE, SANITIZER_SHARE = 0.35, 0.2  # of the time that is left when they begin
COMPILATION_SECONDS = 60
RIVALS_SHARE = 0.6  # of the time for timing; the rest of the table has what they leave


def time_case(clock, sdo, case, device, card, copy_gbs, cold):
    """One row of the table, without rivals."""
    row = dict(vars(case))
    try:
        inputs = gpu_inputs.Inputs(sdo, case, device)
        call = inputs.ours(sdo, case)
        row["graph_us"] = clock.graph(call, deterministic=True)
        row["eager_us"] = clock.eager(call)
        if cold:
            row["cold_us"] = clock.cold(call)
        if inputs.verifies:
            row["accepted"] = call()[0].double().mean().item()
    except (RuntimeError, AssertionError) as error:  # of these is torch's OutOfMemoryError
        return {**row, "error": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"}, None
    what = (case.op, case.rows, case.vocab, case.dtype)
    row["gbs"] = model.bytes_needed(*what) / row["graph_us"] / 1e3
    row["of_copy"] = row["gbs"] / copy_gbs
    if card:
        row["model_us"] = model.predict(card, *what)
        row["model_cold_us"] = model.predict(card, *what, cold=True) if cold else None
    return row, inputs


def time_rivals(clock, sdo, case, inputs, budget):
    timed = {}
    for name, call in gpu_rivals.rivals(sdo, case, inputs).items():
        if name == "compiled" and (
            isinstance(clock, CpuClock) or budget.left() < 2 * COMPILATION_SECONDS
        ):
            timed[name] = {"error": "not timed: a compilation may take a minute"}
            continue
        try:
            timed[name] = {"eager_us": clock.eager(call)}
            timed[name]["graph_us"] = clock.graph(call)
        except Exception as error:  # others' code may raise anything; a graph may refuse it
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
            timed.setdefault(name, {"error": reason})["graph_error"] = reason
    return timed


class Table:
    """The rows that were timed, and those that were not."""

    def __init__(self, clock, sdo, device, card):
        self.clock, self.sdo, self.device, self.card = clock, sdo, device, card
        self.copy_gbs = clock.copy_gbs()
        self.rows, self.left_out = [], []

    def time(self, cases, budget, *, main):
        for i, case in enumerate(cases):
            if not budget.left():
                kind = "main rows" if main else "other rows"
                rest = len(cases) - i
                self.left_out.append(f"{rest} of {len(cases)} {kind}, from `{case}` on: no time")
                return
            row, inputs = time_case(
                self.clock, self.sdo, case, self.device, self.card, self.copy_gbs, main
            )
            self.rows.append(row)
            if inputs and main:
                row["rivals"] = time_rivals(self.clock, self.sdo, case, inputs, budget)
            print(gpu_report.line(row), flush=True)


def exit_code(outcomes, rows):
    bad = any(outcome.status in (FAILED, UNFINISHED) for outcome in outcomes)
    wrong = any("OutOfMemoryError" not in row.get("error", "OutOfMemoryError") for row in rows)
    return int(bad or wrong)


def check(backend, device, budget, self_test):
    """The outcomes of the stages before the timing."""
    outcomes = [gpu_stages.build(backend)]
    print(outcomes[0], flush=True)
    if importlib.util.find_spec("pytest") is None:
        return [*outcomes, Outcome("tests", UNFINISHED, "there is no pytest here", 0.0)]
    wanted = gpu_stages.FEWEST if self_test else gpu_stages.NOT_FOR_A_GPU
    seconds = 30 if self_test else budget.left() * CHECKS_SHARE
    outcomes.append(gpu_stages.same_bits(backend, device, seconds, wanted))
    print(outcomes[-1], flush=True)
    if self_test:
        return [*outcomes, Outcome("compute-sanitizer", SKIPPED, "not on a CPU", 0.0)]
    outcomes += gpu_stages.sanitize(backend, device, budget.left() * SANITIZER_SHARE)
    print(*outcomes[2:], sep="\n", flush=True)
    return outcomes


def timings(table, sizes, budget):
    print(f"copy: {table.copy_gbs:.0f} GB/s\n\n{gpu_report.NOTES}\n\n{gpu_report.COLUMNS}")
    main = Budget(budget.left() * RIVALS_SHARE / 60)
    table.time(gpu_inputs.main_cases(sizes), main, main=True)
    table.time(gpu_inputs.other_cases(sizes), budget, main=False)


def run(arguments):
    self_test = arguments.self_test
    backend, device = ("cpu", "cpu") if self_test else ("cuda", "cuda")
    budget = Budget(arguments.minutes)
    outcomes = check(backend, device, budget, self_test)
    sdo = gpu_package.load(kernel_layout.variant(backend))
    if self_test:
        clock, card, sizes = CpuClock(), None, gpu_inputs.TINY
    else:
        clock = GpuClock(device, torch.cuda.get_device_properties(0).L2_cache_size)
        card, sizes = card_named(torch.cuda.get_device_name()), gpu_inputs.FULL_SIZE
    table = Table(clock, sdo, device, card)
    timings(table, sizes, budget)
    report = {
        "about": gpu_report.about(clock, kernel_layout.identifier(backend), not self_test),
        "copy_gbs": table.copy_gbs,
        "stages": [outcome.as_dict() for outcome in outcomes],
        "left_out": [*gpu_rivals.missing(), *table.left_out],
        "rows": table.rows,
    }
    print("", *(f"left out: {text}" for text in report["left_out"]), sep="\n")
    folder = arguments.out or (None if self_test else RESULTS)
    if folder:
        name = "CPU self-test" if self_test else torch.cuda.get_device_name()
        stem = f"{name}-{time.strftime('%Y-%m-%d')}"
        print(f"written: {gpu_report.write(report, folder, stem)}")
    return exit_code(outcomes, table.rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=7.5, help="for all of it (7.5)")
    parser.add_argument("--self-test", action="store_true", help="the same in small, on a CPU")
    parser.add_argument("--out", type=Path, help="where the report is written")
    arguments = parser.parse_args()
    if arguments.self_test:
        print(CpuClock.name)
    elif reason := gpu_stages.no_device():
        print(f"no CUDA device: {reason}", file=sys.stderr)
        return 2
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
