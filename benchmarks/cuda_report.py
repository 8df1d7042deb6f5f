# SPDX-License-Identifier: Apache-2.0
"""What nvcc made of the CUDA kernels, as Markdown tables: `python benchmarks/cuda_report.py`.

Resources, what machine code should be without, instructions a token by part and pipe, and bytes in
flight. All is read off the machine code, nothing is run; what is counted and how is said in
tests/cuda_static/path.py.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "packaging"), str(ROOT / "tests")]

from cuda_static import compile as toolchain  # noqa: E402
from cuda_static import kernels, sass  # noqa: E402

PASSES_WITH_LOADS = ("scan_kernel", "mass_kernel", "write_kernel")


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def all_kernels():
    """Every kernel of ours for every architecture, by (name, architecture)."""
    folder = ROOT / "csrc" / "cuda"
    sources = {folder / f"{stem}.cu": names for stem, names in kernels.KERNELS.items()}
    found = {}
    for (source, architecture), code in toolchain.compile_all(
        list(sources), toolchain.architectures()
    ).items():
        for name, kernel in kernels.kernels_of(code, sources[source]).items():
            found[name, architecture] = kernel
    return found


def found_faults(kernel):
    """A kernel's faults in a few words."""
    faults = kernels.faults(kernel)
    words = []
    for what in ("call", "mufu", "fp64", "cas"):
        inside = kernels.in_loops(kernel, faults[what])
        together = kernels.of_a_warp_together(kernel, faults[what])
        words.append(f"{len(faults[what])} / {len(together)} / {len(inside)}")
    return words


def resources(found):
    head = ["kernel", "sm", "registers", "shared", "stack", "spills", "instructions"]
    head += ["call", "MUFU", "FP64", "CAS"]
    rows = []
    for (name, architecture), kernel in found.items():
        it = kernel.resources
        spills = f"{it.spill_stores} + {it.spill_loads}"
        size = len(kernel.function.instructions)
        row = [name, architecture, it.registers, it.shared, it.stack, spills, size]
        rows.append([*row, *found_faults(kernel)])
    return table(head, rows)


def places(found):
    """Where what should not be there is."""
    rows = Counter()
    for (name, architecture), kernel in found.items():
        for what, instructions in kernels.faults(kernel).items():
            for each in instructions:
                where = kernels.where(each).split(" < ")[-3:]
                rows[name, what, each.opcode, " < ".join(where), architecture] += 1
    merged = {}
    for (*key, architecture), count in rows.items():
        merged.setdefault(tuple(key), []).append(f"{architecture}: {count}")
    return table(
        ["kernel", "what", "instruction", "in", "how many"],
        [[*key, ", ".join(counts)] for key, counts in sorted(merged.items())],
    )


def tokens(found):
    head = ["pass", "sm", "part", "all", *sass.NAMES, "budget"]
    rows = []
    for a_pass in kernels.PASS_LIST:
        parts, budget = a_pass.budget or ((), None)
        for architecture in toolchain.architectures():
            function = found[a_pass.kernel, architecture].function
            counts = kernels.instructions_a_token(function, a_pass)
            sums = [("whole", sum(counts.values(), Counter()), "")]
            if budget:
                mine = sum((counts.get(part, Counter()) for part in parts), Counter())
                sums.insert(0, (" + ".join(parts), mine, budget))
            for part, pipes, limit in [*((part, it, "") for part, it in counts.items()), *sums]:
                figures = [f"{pipes[name]:.2f}" if pipes[name] else "" for name in sass.NAMES]
                whole = f"{sum(pipes.values()):.2f}"
                rows.append([a_pass.title, architecture, part, whole, *figures, limit])
    return table(head, rows)


def bytes_in_flight(found):
    head = ["kernel", "GPU", "blocks an SM", "float32 rows, kB", "16-bit rows, kB", "needed, kB"]
    rows = []
    for name in PASSES_WITH_LOADS:
        for card in kernels.CARDS:
            it = found[name, card.architecture].resources
            sizes = [
                f"{kernels.bytes_in_flight(it, card.architecture, element) / 1000:.0f}"
                for element in (4, 2)
            ]
            blocks = kernels.resident_blocks(it, card.architecture)
            rows.append([name, card.name, blocks, *sizes, card.need // 1000])
    return table(head, rows)


def report():
    found = all_kernels()
    compiler = next(line for line in toolchain.versions().splitlines() if "release" in line)
    return "\n".join(
        [
            "# What nvcc made of the CUDA kernels\n",
            f"{compiler}. Read off the machine code by `make cuda-report`; nothing was run.\n",
            "## Resources\n",
            "Calls, MUFU, FP64, CAS: in all / of a warp whose lanes are together / in loops.\n",
            resources(found),
            "## Where what should be rare is\n",
            places(found),
            "## Instructions a token, float32 rows\n",
            tokens(found),
            "## Bytes in flight\n",
            bytes_in_flight(found),
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the file to write the tables to")
    arguments = parser.parse_args()
    missing = toolchain.missing()
    if missing:
        raise SystemExit(f"missing: {', '.join(missing)} (CUDA toolkit, tests/requirements.txt)")
    text = report()
    if arguments.write:
        arguments.write.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
