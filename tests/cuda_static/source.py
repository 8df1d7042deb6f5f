# SPDX-License-Identifier: Apache-2.0
"""Which function of a C++ source a line belongs to."""

import bisect
import functools
import re
from pathlib import Path

_SILENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
_HEAD = re.compile(r"([A-Za-z_]\w*)\s*\((?:[^;{}]*)\)\s*(?:const|noexcept|\s)*(?::[^;{}]*)?$")
_NO_FUNCTIONS = {"if", "for", "while", "switch", "catch", "asm", "alignas", "defined"}


def _blank(found):
    """As many lines, and nothing on them."""
    return re.sub(r"[^\n]", " ", found[0])


def _name(head):
    """The function that a `{` after this text opens, or None."""
    found = _HEAD.search(head)
    if not found or found[1] in _NO_FUNCTIONS or found[1].startswith("__launch"):
        return None
    return found[1]


@functools.cache
def _functions(path):
    """[(first line, last line, name)], by their first lines. Lambdas belong to their function."""
    text = _SILENT.sub(_blank, Path(path).read_text(errors="replace"))
    text = re.sub(r"^\s*#[^\n]*", _blank, text, flags=re.MULTILINE)
    text = re.sub(r"__launch_bounds__\([^)]*\)", _blank, text)
    found, open_, start = [], [], 0
    for at, sign in ((m.start(), m[0]) for m in re.finditer(r"[{};]", text)):
        if sign == "{":
            within = any(name for name, _ in open_)
            first = start + len(text[start:at]) - len(text[start:at].lstrip())
            open_.append((None if within else _name(text[start:at]), first))
        elif sign == "}" and open_:
            name, first = open_.pop()
            if name:
                lines = (text.count("\n", 0, first) + 1, text.count("\n", 0, at) + 1)
                found.append((*lines, name))
        start = at + 1
    return sorted(found)


@functools.cache
def function_at(path, line):
    """The name, or "" for a line outside of functions and in files that are not there."""
    if not Path(path).is_file():
        return ""
    functions = _functions(path)
    place = bisect.bisect_right(functions, (line, float("inf"), "")) - 1
    if place < 0 or functions[place][1] < line:
        return ""
    return functions[place][2]


def functions_of(instruction):
    """Those that an instruction was inlined from, innermost first."""
    return [function_at(*line) for line in instruction.lines]
