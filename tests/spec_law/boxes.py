# SPDX-License-Identifier: Apache-2.0
"""The law of a verifier that needs numbers, such as compiled code, given explicit uniforms.

What it returns is constant on boxes of the cube of its uniforms, with faces across the axes, as
every decision compares one uniform with a number. Where the answer changes along a line through the
cube, the face is bisected down to two neighbouring floats and taken to be the simplest fraction
between them, so that the law comes out in fractions. Boxes thinner than the grid that the lines
start from may be missed; answers that are not constant on the boxes found raise.
"""

import random
from bisect import bisect_right
from fractions import Fraction
from itertools import product
from math import lcm

UNITS = 2**53  # a uniform is a multiple of 1 / UNITS, as a float64 in [0, 1) may be


class Boxes:
    """A verifier, for Setup, out of call(p_rows, q_rows, tokens, [uniforms, ...]) -> [(tokens
    accepted, token after them), ...], uniforms [k+1] being floats.

    grid: lines that each axis starts from; their number is grid ** (k + 1).
    """

    def __init__(self, call, grid=12, checks=64):
        self.call, self.grid, self.checks = call, grid, checks

    def verdicts(self, p_rows, q_rows, tokens):
        """{(tokens accepted, token after them): chance}"""

        def answers(points):
            uniforms = [[u / UNITS for u in point] for point in points]
            found = self.call(p_rows, q_rows, tokens, uniforms)
            return [(int(n), int(token)) for n, token in found]

        faces = _faces(answers, len(tokens) + 1, self.grid)
        law, cells = {}, list(product(*(list(zip(axis, axis[1:])) for axis in faces)))
        middles = [[int(UNITS * (a + b) / 2) for a, b in cell] for cell in cells]
        of_cell = dict(zip(cells, answers(middles)))
        for cell, answer in of_cell.items():
            chance = Fraction(1)
            for a, b in cell:
                chance *= b - a
            law[answer] = law.get(answer, 0) + chance
        self._check(answers, faces, of_cell)
        return law

    def _check(self, answers, faces, of_cell):
        dice = random.Random(1)
        points = [[dice.randrange(UNITS) for _ in faces] for _ in range(self.checks)]
        for point, answer in zip(points, answers(points)):
            cell = []
            for axis, u in zip(faces, point):
                place = bisect_right(axis, Fraction(u, UNITS)) - 1
                cell.append((axis[place], axis[place + 1]))
            if of_cell[tuple(cell)] != answer:
                raise ValueError(
                    f"the answer at uniforms {[u / UNITS for u in point]} is {answer}, elsewhere "
                    f"in its box {of_cell[tuple(cell)]}: a finer grid is wanted"
                )


def _faces(answers, axes, grid):
    """For each axis where the answer changes along it, with 0 and 1."""
    ticks = [0, *((2 * j + 1) * UNITS // (2 * grid) for j in range(grid)), UNITS - 1]
    points = list(product(range(len(ticks)), repeat=axes))
    at = dict(zip(points, answers([[ticks[j] for j in point] for point in points])))
    faces = []
    for axis in range(axes):
        found = set()  # (last unit before the face, first unit behind it)
        for point in points:
            other = (*point[:axis], point[axis] + 1, *point[axis + 1 :])
            if other in at and at[point] != at[other]:
                line = [ticks[j] for j in point]
                _bisect(answers, line, axis, ticks[other[axis]], at[point], at[other], found)
        inner = {simplest(Fraction(a, UNITS), Fraction(b, UNITS)) for a, b in found}
        faces.append([Fraction(0), *sorted(inner - {0, 1}), Fraction(1)])
    return faces


def _bisect(answers, line, axis, high, before, behind, found):
    """Adds the faces between `line` and `high` on its axis."""

    def at(u):
        [answer] = answers([[*line[:axis], u, *line[axis + 1 :]]])
        return answer

    low = line[axis]
    while before != behind:
        face = next((f for f in found if low <= f[0] and f[1] <= high), None)
        if face is None or at(face[0]) != before or at(face[1]) == before:
            first, last = low, high
            while last - first > 1:
                middle = (first + last) // 2
                first, last = (middle, last) if at(middle) == before else (first, middle)
            face = (first, last)
            found.add(face)
        low, before = face[1], at(face[1])


def simplest(low, high):
    """The fraction with the least denominator in [low, high]."""
    whole = low.numerator // low.denominator
    if whole == low:
        return Fraction(whole)
    if whole + 1 <= high:
        return Fraction(whole + 1)
    return whole + 1 / simplest(1 / (high - whole), 1 / (low - whole))


def integers(row):
    """The row in whole units: weights that a float holds exactly, for verifiers that normalise."""
    unit = lcm(*(Fraction(x).denominator for x in row))
    return [int(x * unit) for x in row]


def impossible(call, p_rows, q_rows, tokens):
    """Uniforms at the ends of their range at which a token of probability 0 is emitted, or a token
    with p = 0 accepted: (uniforms, answer), or None."""
    ends = (0.0, 2.0**-53, 0.5, 1 - 2.0**-53)
    uniforms = [list(point) for point in product(ends, repeat=len(tokens) + 1)]
    for point, (n, token) in zip(uniforms, call(p_rows, q_rows, tokens, uniforms)):
        emitted = [*tokens[:n], token]
        if not all(0 <= t < len(p) and p[t] for p, t in zip(p_rows, emitted)):
            return point, (int(n), int(token))
    return None
