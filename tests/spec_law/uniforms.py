# SPDX-License-Identifier: Apache-2.0
"""Uniform numbers that are not drawn: a program that compares them is run once for each outcome.

    for result, chance, boxes in paths(program):    # program(noise), noise(key) in [0, 1)

A Uniform knows the interval that it is in so far. Comparing it with a rational that cuts the
interval takes one side now and the other in a later run, so that `chance` is exact, and the
program may be written as for numbers: u * q < p. A uniform read twice is the same uniform.
"""

from fractions import Fraction
from numbers import Rational

ZERO, ONE = Fraction(0), Fraction(1)


class Uniform:
    """scale * u + shift, u in [0, 1) being the path's noise of that key."""

    __slots__ = ("path", "key", "scale", "shift")
    __hash__ = None

    def __init__(self, path, key, scale=ONE, shift=ZERO):
        self.path, self.key, self.scale, self.shift = path, key, scale, shift

    def _with(self, scale, shift):
        return Uniform(self.path, self.key, scale, shift)

    def __mul__(self, x):
        return self._with(self.scale * _rational(x), self.shift * _rational(x))

    def __truediv__(self, x):
        return self * (1 / Fraction(_rational(x)))

    def __add__(self, x):
        return self._with(self.scale, self.shift + _rational(x))

    def __sub__(self, x):
        return self._with(self.scale, self.shift - _rational(x))

    def __neg__(self):
        return self._with(-self.scale, -self.shift)

    def __rsub__(self, x):
        return -self + x

    __rmul__, __radd__ = __mul__, __add__

    def __lt__(self, x):
        x = _rational(x)
        if self.scale == 0:
            return self.shift < x
        below = self.path.is_below(self.key, Fraction(x - self.shift) / self.scale)
        return below if self.scale > 0 else not below

    # Equality has chance 0.
    __le__ = __lt__

    def __ge__(self, x):
        return not self < x

    __gt__ = __ge__

    def __eq__(self, x):
        return False

    def __bool__(self):
        return True

    def __float__(self):
        raise TypeError(
            "a Uniform has no value, only comparisons with rationals: a verifier that needs "
            "numbers is measured by spec_law.boxes"
        )


def _rational(x):
    if isinstance(x, Rational):
        return x
    if isinstance(x, float):
        return Fraction(x)
    raise TypeError(f"a Uniform meets {x!r}, wanted an int, a Fraction or a float")


class Path:
    """One run: the answers it is told to give first, and those it gave."""

    def __init__(self, told):
        self.answers, self.told, self.boxes = [], told, {}

    def __call__(self, key):
        return Uniform(self, key)

    def is_below(self, key, x):
        low, high = self.boxes.get(key, (ZERO, ONE))
        if x <= low:
            return False
        if x >= high:
            return True
        place = len(self.answers)
        answer = self.told[place] if place < len(self.told) else True
        self.answers.append(answer)
        self.boxes[key] = (low, x) if answer else (x, high)
        return answer

    @property
    def chance(self):
        product = ONE
        for low, high in self.boxes.values():
            product *= high - low
        return product


def paths(program):
    """(what program(noise) returns, the chance of that run, {key: (low, high)}) for all runs."""
    waiting = [[]]
    while waiting:
        told = waiting.pop()
        path = Path(told)
        result = program(path)
        yield result, path.chance, path.boxes
        for place in range(len(told), len(path.answers)):
            waiting.append([*path.answers[:place], False])
