# SPDX-License-Identifier: Apache-2.0
"""PTX text, read: a module's variables and kernels, a kernel's registers, labels and instructions.

Registers that are declared in an inner scope get names of their own. Nothing is understood of
what an instruction does.
"""

import re
from dataclasses import dataclass, field

BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8}
for _bits in (16, 32, 64):
    BITS.update({f"{kind}{_bits}": _bits for kind in "busf"})
BITS.update({"bf16": 16, "f16x2": 32, "bf16x2": 32, "b128": 128})

VARIABLE = re.compile(
    r"(?P<extern>\.extern\s+)?(?:\.(?:visible|weak|common)\s+)*\.(?P<space>shared|local|global|const)\s+"
    r"(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?P<name>[\w$]+)"
    r"(?P<array>\[(?P<count>\d*)\])?\s*(?:=\s*(?P<value>.*))?$",
    re.DOTALL,
)
PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+"
    r"(?:\.ptr\s*(?:\.\w+\s+)*?(?:\.align\s+\d+\s+)?)?(?P<name>[\w$]+)(?:\[(?P<count>\d+)\])?$"
)
NAME = re.compile(r"%?[A-Za-z_$][\w$]*")


class Unsupported(Exception):
    """Something of PTX that is not translated."""


@dataclass
class Variable:
    name: str
    space: str
    bytes: int
    align: int
    element_bytes: int = 1
    value: str = ""


@dataclass
class Instruction:
    text: str
    parts: list  # of the opcode, between its dots
    operands: list
    guard: str = ""  # the predicate register of @p or @!p
    negated: bool = False

    @property
    def name(self):
        return self.parts[0]

    @property
    def type(self):
        return self.parts[-1]

    @property
    def types(self):
        return [part for part in self.parts[1:] if part in BITS]

    def find(self, *choices, default=None):
        """The one of the opcode's parts that is among the choices."""
        return next((part for part in self.parts[1:] if part in choices), default)


@dataclass
class Kernel:
    name: str
    params: list
    registers: dict = field(default_factory=dict)  # bits of each
    variables: list = field(default_factory=list)
    code: list = field(default_factory=list)  # instructions and, as strings, labels
    tables: dict = field(default_factory=dict)  # branch targets, by the table's label


@dataclass
class Module:
    variables: list
    kernels: list


def split(text, separator=","):
    """At separators outside of brackets."""
    parts, depth, part = [], 0, ""
    for char in text:
        depth += (char in "[{(") - (char in ")}]")
        if char == separator and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += char
    return parts + [part.strip()] if part.strip() else parts


def size(match):
    """Bytes, alignment and bytes of an element, as a declaration has them."""
    element = BITS[match["type"]] // 8
    count = match["count"]
    return (
        element * int(count or (0 if count == "" else 1)),
        int(match["align"] or element),
        element,
    )


def variable(statement):
    match = VARIABLE.match(statement)
    if not match:
        raise Unsupported(f"declaration {statement!r}")
    return Variable(match["name"], match["space"], *size(match), (match["value"] or "").strip())


def parameter(statement):
    match = PARAMETER.match(" ".join(statement.split()))
    if not match:
        raise Unsupported(f"parameter {statement!r}")
    return Variable(match["name"], "param", *size(match))


def closing_brace(text, start):
    depth = 1
    for brace in re.compile("[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise Unsupported("braces that do not match")


def parse(text):
    """The module that a PTX file holds."""
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL))
    module, outside, position = Module([], []), "", 0
    for head in re.finditer(r"\.(entry|func)\b([^{;]*)([{;])", text):
        if head.start() < position:
            continue
        outside += text[position : head.start()]
        position = head.end()
        if head[3] == "{":
            end = closing_brace(text, head.end())
            if head[1] == "entry":
                module.kernels.append(parse_kernel(head[2], text[head.end() : end]))
            position = end + 1
    outside += text[position:]
    for statement in split(outside, ";"):
        declaration = re.search(
            r"(?:\.\w+\s+)*?\.(?:shared|global|const)\b.*", statement, re.DOTALL
        )
        if declaration:
            module.variables.append(variable(declaration[0]))
    return module


def parse_kernel(head, body):
    name, params = re.match(r"\s*([\w$]+)\s*(?:\((.*?)\))?", head, re.DOTALL).groups()
    kernel = Kernel(name, [parameter(param) for param in split(params or "")])
    Body(kernel).read(body)
    return kernel


def statements(body):
    """Statements, labels with their colon, and braces that open or close a scope."""
    pending = ""
    for char in body:
        if char in "{}" and not pending.strip():
            yield char
            pending = ""
        elif char == ":" and re.fullmatch(r"\s*[\w$]+", pending):
            yield pending.strip() + ":"
            pending = ""
        elif char == ";":
            yield " ".join(pending.split())
            pending = ""
        else:
            pending += char


class Body:
    """Reads a kernel's statements into the kernel."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.scopes = [{}]
        self.renamed = 0
        self.table = ""

    def read(self, body):
        for statement in statements(body):
            if statement == "{":
                self.scopes.append({})
            elif statement == "}":
                self.scopes.pop()
            elif statement.endswith(":"):
                self.kernel.code.append(statement[:-1])
            elif statement.startswith("."):
                self.read_directive(statement)
            elif statement:
                self.read_instruction(statement)

    def read_directive(self, statement):
        if statement.startswith(".reg"):
            self.declare_registers(statement)
        elif statement.startswith((".shared", ".local")):
            self.kernel.variables.append(variable(statement))
        elif statement.startswith(".branchtargets"):
            targets = split(statement.partition(" ")[2])
            self.kernel.tables[self.kernel.code.pop()] = targets
        elif not statement.startswith((".loc", ".pragma", ".file", ".section", ".param")):
            raise Unsupported(f"directive {statement!r}")

    def declare_registers(self, statement):
        kind, names = re.match(r"\.reg\s*\.(\w+)\s+(.*)$", statement).groups()
        for name in split(names):
            numbered = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
            all_names = [name]
            if numbered:
                all_names = [f"{numbered[1]}{i}" for i in range(int(numbered[2]))]
            for register in all_names:
                unique = register
                if len(self.scopes) > 1:
                    self.renamed += 1
                    unique = f"%inner{self.renamed}_{register.lstrip('%')}"
                    self.scopes[-1][register] = unique
                self.kernel.registers[unique] = BITS[kind]

    def resolve(self, text):
        def unique(match):
            scopes = (scope[match[0]] for scope in reversed(self.scopes) if match[0] in scope)
            return next(scopes, match[0])

        return NAME.sub(unique, text)

    def read_instruction(self, statement):
        match = re.match(r"(?:@(!?)(%?[\w$]+)\s+)?([\w.:]+)\s*(.*)$", statement)
        if not match:
            raise Unsupported(f"statement {statement!r}")
        negated, guard, opcode, operands = match.groups()
        self.kernel.code.append(
            Instruction(
                statement,
                opcode.replace("::", ".").split("."),
                [self.resolve(operand) for operand in split(operands)],
                self.resolve(guard or ""),
                bool(negated),
            )
        )
