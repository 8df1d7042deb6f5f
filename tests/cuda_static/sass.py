# SPDX-License-Identifier: Apache-2.0
"""Machine code (SASS) as `nvdisasm -gi` lists it: functions, basic blocks and natural loops.

    functions = parse(listing)
    functions["my_kernel"].blocks[0].instructions[0].opcode     # "IMAD.MOV.U32"

An instruction knows its pipe and the source lines that it comes from, innermost first. A branch
that ptxas writes as a call to a label of the same function is a branch; calls are of other
functions, such as `$__internal_0_$__cuda_sm70_shflsync_idx`.
"""

import re
from dataclasses import dataclass, field

# The pipe by the opcode's beginning; the first that fits. All else is integer and logic: "alu".
PIPES = (
    ("fp64", r"D(ADD|MUL|FMA|SETP|MNMX)|DMMA|F2F[.\w]*F64|F2I[.\w]*F64|I2F[.\w]*F64"),
    ("mufu", r"MUFU"),
    ("xu", r"F2F|F2I|I2F|FLO|POPC|BREV|FRND"),
    ("fma", r"FADD|FMUL|FFMA|FSWZADD|IMAD|IDP|HADD2|HMUL2|HFMA2"),
    ("uniform", r"U[A-Z]|R2UR|S2UR|LDCU"),
    ("memory", r"LD|ST[GSL]?\b|ATOM|RED\b|MEMBAR|ERRBAR|CCTL|FENCE"),
    ("warp", r"SHFL|VOTE|REDUX|MATCH|CREDUX"),
    (
        "control",
        r"BRA|BRX|JMP|JMX|BSSY|BSYNC|BREAK|BMOV|WARPSYNC|BAR|B2R|CALL|RET|EXIT|NOP|YIELD|NANOSLEEP|"
        r"S2R|CS2R|DEPBAR|ACQBULK|BPT|KILL|ELECT",
    ),
)
NAMES = (*(name for name, _ in PIPES), "alu")
_PATTERNS = [(name, re.compile(pattern)) for name, pattern in PIPES]


def pipe(opcode):
    return next((name for name, pattern in _PATTERNS if pattern.match(opcode)), "alu")


@dataclass(frozen=True)
class Instruction:
    address: int
    predicate: str  # "" or "@!P0"
    opcode: str
    operands: str
    lines: tuple  # (file, line), innermost first; the last is the kernel's

    @property
    def target(self):
        """The label that is named, or None."""
        named = re.search(r"`\((.+?)\)", self.operands)
        return named[1] if named else None

    @property
    def name(self):
        """The opcode without what modifies it."""
        return self.opcode.split(".")[0]

    def is_call(self):
        """Of another function. requires a listing's label names"""
        return self.name == "CALL" and not (self.target or "").startswith(".L_")

    def is_cas(self):
        return re.match(r"ATOM[SG]?\.(\w+\.)*CAS", self.opcode) is not None

    def is_local_memory(self):
        return self.name in ("LDL", "STL")


@dataclass
class Block:
    instructions: list
    next: list = field(default_factory=list)  # places of blocks


@dataclass
class Function:
    name: str
    instructions: list
    labels: dict  # label -> place of the instruction after it
    blocks: list = field(default_factory=list)

    def successors_of(self, place):
        """(whether it goes on with the next instruction, the label it may go to or None)"""
        instruction = self.instructions[place]
        always = instruction.predicate in ("", "@PT", "@UPT")
        if instruction.predicate in ("@!PT", "@!UPT"):  # what ptxas leaves of a branch never taken
            return True, None
        if instruction.name in ("EXIT", "RET"):
            return not always, None
        jumps = instruction.name in ("BRA", "JMP") or (
            instruction.name == "CALL" and not instruction.is_call()
        )
        if not jumps:
            return True, None
        if instruction.opcode.startswith("BRA.DIV"):  # only of a warp that has come apart
            return True, None
        if instruction.opcode.startswith("BRA.CONV"):  # of one that has not
            return False, instruction.target
        # `BRA.U UP0, ...` and `BRA P0, ...` have a condition among their operands.
        conditional = re.match(r"!?U?P\d", instruction.operands) is not None
        return conditional or not always, instruction.target

    def split(self):
        """Finds the blocks."""
        starts = {0}
        for place in range(len(self.instructions)):
            goes_on, label = self.successors_of(place)
            if label:
                starts.add(self.labels[label])
            if label or not goes_on or self.instructions[place].name == "EXIT":
                starts.add(place + 1)
        starts = sorted(start for start in starts if start < len(self.instructions))
        index = {start: i for i, start in enumerate(starts)}
        for start, end in zip(starts, [*starts[1:], len(self.instructions)]):
            goes_on, label = self.successors_of(end - 1)
            block = Block(self.instructions[start:end])
            if goes_on and end in index:
                block.next.append(index[end])
            if label and index[self.labels[label]] not in block.next:
                block.next.append(index[self.labels[label]])
            self.blocks.append(block)

    def reachable(self):
        """Places of blocks, each after all from which it is reached but by an edge backwards."""
        order, seen = [], {0}
        stack = [(0, iter(self.blocks[0].next))]
        while stack:
            place, following = stack[-1]
            step = next((each for each in following if each not in seen), None)
            if step is None:
                order.append(place)
                stack.pop()
            else:
                seen.add(step)
                stack.append((step, iter(self.blocks[step].next)))
        return order[::-1]

    def dominators(self):
        """{place: places of the blocks through which every way there goes}"""
        order = self.reachable()
        before = {place: [] for place in order}
        for place in order:
            for following in self.blocks[place].next:
                before[following].append(place)
        found = {place: set(order) for place in order}
        found[0] = {0}
        changed = True
        while changed:
            changed = False
            for place in order[1:]:
                through = set.intersection(*(found[each] for each in before[place])) | {place}
                changed |= through != found[place]
                found[place] = through
        return found

    def back_edges(self):
        dominators = self.dominators()
        return [
            (place, head)
            for place in dominators
            for head in self.blocks[place].next
            if head in dominators[place]
        ]

    def loops(self):
        """{head: places of the blocks of its natural loop}"""
        before = {}
        for place in self.reachable():
            for following in self.blocks[place].next:
                before.setdefault(following, []).append(place)
        found = {}
        for end, head in self.back_edges():
            loop, open_ = {head}, [end]
            while open_:
                place = open_.pop()
                if place not in loop:
                    loop.add(place)
                    open_ += before.get(place, [])
            found[head] = found.get(head, set()) | loop
        return found

    def loop_instructions(self):
        """All that stand in any loop."""
        places = set().union(*self.loops().values())
        return [each for place in sorted(places) for each in self.blocks[place].instructions]


_LINE = re.compile(r'//## File "(.+?)", line (\d+)( inlined at .*)?$')
_CODE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_LABEL = re.compile(r"(\.L_\w+|\$?[\w$]+):$")


def parse(listing):
    """{mangled name: Function}, among them those that ptxas calls from a kernel."""
    functions, current, lines, fresh = {}, None, [], True
    for text in listing.splitlines():
        if text.startswith(("//-----", "\t.section\t")):
            current = None
        if text.startswith("\t.section\t.text."):
            current = Function("", [], {})
        if current is None:
            continue
        label = _LABEL.match(text)
        if label and not label[1].startswith(".L_"):
            current = Function(label[1], [], {})
            functions[current.name] = current
        elif label:
            current.labels[label[1]] = len(current.instructions)
        line = _LINE.search(text)
        if line:  # a chain of them stands before the instructions that come from there
            if not fresh:
                lines, fresh = [], True
            lines.append((line[1], int(line[2])))
        code = _CODE.match(text)
        if code:
            fresh = False
            address, predicate, opcode, operands = code.groups()
            predicate = (predicate or "").strip()
            current.instructions.append(
                Instruction(int(address, 16), predicate, opcode, operands, tuple(lines))
            )
    for function in functions.values():
        drop_padding(function)
        function.split()
    return functions


def drop_padding(function):
    """Takes away the endless branch and the NOPs at the end of a section."""
    while function.instructions and function.instructions[-1].name == "NOP":
        function.instructions.pop()
    last = function.instructions[-1]
    if last.name == "BRA" and function.labels.get(last.target) == len(function.instructions) - 1:
        function.instructions.pop()
