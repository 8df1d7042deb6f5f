# SPDX-License-Identifier: Apache-2.0
"""The instructions that a warp executes on its main path, counted by part of the source.

A kernel that gives each thread 16 tokens has no loop over them: what it executes for them is
straight-line code, so that a token costs the instructions of the path over 16. The path is the way
through the kernel on which most instructions count, where
  - none counts in a block most of whose instructions come from a function named as rare;
  - no loop is gone round more than once;
  - the warp's lanes are together, where ptxas asks (BRA.DIV, BRA.CONV);
  - a function that is named as never called does not lie on it.
So it is an upper bound for a warp to which nothing rare happens, but for lanes that part at an if
with two sides, and for loops that run again. An instruction that moved into a block of the path is
counted there, whatever it was for; it belongs to the part whose function it was inlined from.
"""

from collections import Counter, defaultdict

from . import sass
from .source import functions_of

SETUP = "set-up"  # of what belongs to no part


def is_rare(block, rare):
    """Whether most of the block comes from one of the functions."""
    theirs = sum(not rare.isdisjoint(functions_of(each)) for each in block.instructions)
    return 2 * theirs > len(block.instructions)


def longest(function, counted):
    """Places of the blocks of the way to an end, back edges left out, with most counted
    instructions; of ways that are equal, the one that ends last.

    `counted` has a place's number of them, or None if no way leads through it.
    """
    back = set(function.back_edges())
    best, last = {0: (counted[0], None)}, None
    for place in function.reachable():
        if place not in best:
            continue
        block = function.blocks[place]
        for following in block.next:
            if (place, following) in back or counted[following] is None:
                continue
            most = best[place][0] + counted[following]
            if following not in best or most > best[following][0]:
                best[following] = (most, place)
        ends = any(each.name == "EXIT" for each in block.instructions)
        if ends and (last is None or best[place][0] >= best[last][0]):
            last = place
    if last is None:
        raise ValueError(f"{function.name}: every way to its end leads through what is never")
    path = []
    while last is not None:
        path.append(last)
        last = best[last][1]
    return path[::-1]


def main_path(function, rare, never=()):
    """The instructions of the main path. `rare`: names of functions, or (name, opcode) for those
    of its blocks that have such an instruction."""
    names = {each for each in rare if isinstance(each, str)}
    marks = [each for each in rare if not isinstance(each, str)]

    def is_marked(block):
        return any(
            each.opcode.startswith(opcode) and name in functions_of(each)
            for name, opcode in marks
            for each in block.instructions
        )

    def counted_in(block):
        if is_rare(block, set(never)):
            return None
        return 0 if is_marked(block) or is_rare(block, names) else len(block.instructions)

    counted = [len(function.blocks[0].instructions), *map(counted_in, function.blocks[1:])]
    path = [place for place in longest(function, counted) if counted[place]]
    return [each for place in path for each in function.blocks[place].instructions]


def part_of(instruction, parts):
    """The part of the innermost function that has one."""
    return next((parts[name] for name in functions_of(instruction) if name in parts), SETUP)


def count(instructions, parts):
    """{part: Counter of pipes}; `parts`: function -> part."""
    found = defaultdict(Counter)
    for each in instructions:
        found[part_of(each, parts)][sass.pipe(each.opcode)] += 1
    return dict(found)
