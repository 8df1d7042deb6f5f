# SPDX-License-Identifier: Apache-2.0
"""The inner loops of the neon target, found in g++'s assembly, and their cycles by llvm-mca.

What is read is the code that ships: nothing is marked or isolated for the purpose. Line tables
(-g1, which changes no instruction) name the source line of each instruction, and a loop is known by
the line that its closing branch is of. It is innermost if no other backward branch lies inside it,
or none that is not passed by as a rule.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, Optional

import native_library

COMPILER = "aarch64-linux-gnu-g++"
SOURCE = native_library.ROOT / "csrc" / "cpu" / "target_neon.cpp"
KERNELS = native_library.ROOT / "csrc" / "cpu"
BRANCH = re.compile(r"(?:b|b\.?[a-z]{2}|cbn?z|tbn?z)\s.*?(\.L\w+)$")
LOAD = re.compile(r"(?:ldr|ldp|ldur|ld1)\s(.*)\[(.*)\](.*)")
STEP = re.compile(r"(?:add|sub)\s(x\d+), \1,")
ITERATIONS = 100
OLDEST_MCA = 16  # before, neoverse-n1 had the schedule of an A57


class Instruction(NamedTuple):
    text: str
    file: str
    line: int


class Loop(NamedTuple):
    name: str  # of the function that holds it, mangled
    body: list


class Wanted(NamedTuple):
    """An inner loop by its line of the source, in the function that holds it there."""

    title: str
    file: str
    function: str
    line: str  # or a part of it
    tokens: Optional[int] = None  # an iteration handles; None: as many float32 as it loads
    exponential: Optional[bool] = None  # whether it takes one, which ends in a shift; None: either
    loads: Optional[int] = None  # float32 an iteration; loops over other dtypes load fewer
    inlined_in: str = ""  # a part of the mangled name of whatever it may be inlined in


def assembly():
    """Function -> its instructions and labels, as g++ has them."""
    if not shutil.which(COMPILER):
        raise SystemExit(f"{COMPILER}: no such compiler. On Debian: g++-aarch64-linux-gnu")
    flags = [*native_library.FLAGS, f"-I{native_library.ROOT / 'csrc'}", "-g1", "-S", "-o", "-"]
    text = subprocess.check_output([COMPILER, *flags, str(SOURCE)], text=True)
    functions, files, lines, place = {}, {}, None, ("", 0)
    for line in map(str.strip, text.splitlines()):
        if file := re.match(r'\.file (\d+) .*?"([^"]+)"$', line):
            files[file[1]] = Path(file[2]).name
        elif start := re.match(r"(_Z[\w.]+):$", line):
            lines = functions.setdefault(start[1], [])
        elif where := re.match(r"\.loc (\d+) (\d+)", line):
            place = files[where[1]], int(where[2])
        elif line.startswith(".size"):
            lines = None
        elif lines is not None and re.match(r"\.L\w+:$|[a-z]", line):
            lines.append(Instruction(line, *place))
    return functions


def branches_of(lines):
    """(from, to) of each branch within a function, by index."""
    labels = {each.text[:-1]: i for i, each in enumerate(lines) if each.text.endswith(":")}
    found = ((i, BRANCH.match(each.text)) for i, each in enumerate(lines))
    return [(i, labels[b[1]]) for i, b in found if b and b[1] in labels]


def usual_path(branches, loop, inside):
    """The loop's indices without the loops inside it, if branches pass them by; None if not: then
    the loop itself is only the way from one of them to the next."""
    first, last = loop
    kept = set(range(first, last + 1))
    for start, end in inside:
        around = [(i, to) for i, to in branches if first <= i < start and end < to <= last]
        if not around:
            return None
        i, to = max(around)
        kept -= set(range(i + 1, to))
    return kept


def innermost_loops(name, lines):
    branches = branches_of(lines)
    spans = {(to, i) for i, to in branches if to < i}
    for first, last in sorted(spans):
        inside = [s for s in spans if s != (first, last) and first <= s[0] and s[1] <= last]
        kept = usual_path(branches, (first, last), inside)
        if kept:
            body = [lines[i] for i in sorted(kept) if not lines[i].text.endswith(":")]
            yield Loop(name, body)


def line_numbers(wanted):
    """Where the loop's line stands, in a function whose body ends with a brace in column 0."""
    lines = (KERNELS / wanted.file).read_text().splitlines()
    head = rf"^(\[\[.*\]\] )?(inline|HOST_DEVICE|static)\b.*\b{wanted.function}\("
    first = next((i for i, line in enumerate(lines) if re.match(head, line)), len(lines))
    last = next((i for i in range(first, len(lines)) if lines[i] == "}"), len(lines))
    found = {i + 1 for i in range(first, last) if wanted.line in lines[i]}
    if not found:
        where = f"{wanted.function} in csrc/cpu/{wanted.file}"
        raise SystemExit(f"{wanted.title}: no line {wanted.line!r} of a function {where}")
    return found


def loops_of(functions, wanted):
    """The loop, wherever its function was inlined."""
    numbers = line_numbers(wanted)
    return [
        loop
        for name, lines in functions.items()
        for loop in innermost_loops(name, lines)
        if loop.body[-1].file == wanted.file and loop.body[-1].line in numbers
        if wanted.inlined_in in name
        if wanted.exponential in (None, any(x.text.startswith("shl") for x in loop.body))
        if wanted.loads in (None, floats_loaded(loop.body))
    ]


def with_callees(functions, body, depth=2):
    """The instructions, with those of a function without loops in place of its call."""
    for each in body:
        callee = re.match(r"bl\s(\S+)$", each.text)
        lines = functions.get(callee[1]) if callee else None
        if lines and depth and not any(innermost_loops(callee[1], lines)):
            inside = [x for x in lines if not x.text.endswith(":") and x.text != "ret"]
            yield from with_callees(functions, inside, depth - 1)
        else:
            yield each


def floats_loaded(body):
    """Vector loads from where the loop goes on; elsewhere are constants that found no register."""
    moving = {step[1] for each in body if (step := STEP.match(each.text))}
    loads = [load for each in body if (load := LOAD.match(each.text))]
    moving |= {load[2] for load in loads if load[3]}  # by the load itself
    return sum(
        4 * len(re.findall(r"\bq\d+|v\d+\.4s", load[1]))
        for load in loads
        if moving & set(re.findall(r"x\d+", load[2]))
    )


def llvm_mca():
    """The newest llvm-mca of this machine, if it is new enough."""
    folders = [Path("/usr/bin"), Path("/usr/local/bin")]
    found = {
        int(path.name.rpartition("-")[2]): path
        for folder in folders
        for path in folder.glob("llvm-mca-[0-9]*")
    }
    if not found or max(found) < OLDEST_MCA:
        raise SystemExit(f"no llvm-mca of LLVM {OLDEST_MCA} or newer. On Debian: llvm-19")
    return found[max(found)]


def cycles(functions, loop, processor):
    """Of one iteration, in a run of many with its data in the first cache."""
    body = [each.text for each in with_callees(functions, loop.body)]
    command = [str(llvm_mca()), "-mtriple=aarch64", f"-mcpu={processor}", "-summary-view"]
    options = [f"-iterations={ITERATIONS}", "-resource-pressure=0", "-instruction-info=0"]
    # Labels of branches out of the loop are no symbols here.
    text = "\n".join(re.sub(r"\.L\w+$", "out", line) for line in body) + "\nout:\n"
    run = subprocess.run([*command, *options], input=text, capture_output=True, text=True)
    total = re.search(r"^Total Cycles:\s+(\d+)$", run.stdout, re.MULTILINE)
    if not total:
        raise SystemExit(f"llvm-mca: {run.stderr}")
    return int(total[1]) / ITERATIONS


class Measured(NamedTuple):
    instructions: float  # a token, as are the cycles
    cycles: dict  # by processor


def measure(functions, wanted, processors):
    """The dearest of the loop's compilations, a token."""
    found = []
    for loop in loops_of(functions, wanted):
        tokens = wanted.tokens or floats_loaded(loop.body)
        if tokens:
            count = len(list(with_callees(functions, loop.body)))
            by_processor = {cpu: cycles(functions, loop, cpu) / tokens for cpu in processors}
            found.append(Measured(count / tokens, by_processor))
    if not found:
        raise SystemExit(f"{wanted.title}: no inner loop over a row ends at {wanted.line!r}")
    return max(found, key=lambda each: max(each.cycles.values()))
