# SPDX-License-Identifier: Apache-2.0
"""Which part of a biased setup is to blame: the draft, a branch of the verifier, or the noise.

The verifier is compared, round by round, with the exact rule that it is nearest to. If that rule in
its place leaves no bias, the first branch where the two differ is to blame; if some bias stays, it
is the draft, where its tokens do not follow the laws that are told, and else noise that is shared.
"""

from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

from .laws import distance, drafts_of, rows_of, total_variation, verdicts
from .rules import EXACT, draft_laws


class Blame(NamedTuple):
    branch: str  # "draft", "acceptance", "residual", "bonus", "end of the draft" or "noise"
    position: int  # in the round
    prefix: tuple = ()  # before the round
    tokens: tuple = ()  # the draft at hand
    got: object = None
    wanted: object = None
    rule: str = ""  # what it was compared with

    def __str__(self):
        if self.branch == "noise":
            return "noise: what rounds or positions share, exact though each is alone"
        return (
            f"{self.branch}, position {self.position} of draft {list(self.tokens)} after "
            f"{list(self.prefix)}: {_text(self.got)}, wanted {_text(self.wanted)} ({self.rule})"
        )


def _text(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {value[key]}" for key in sorted(value)) + "}"
    return str(value)


def blame(setup, length, like=None):
    """Of a setup whose streams of that length are biased. `like` names the exact rule to compare
    with, "token", "block" or "coupled"; None takes the nearest."""
    prefixes, rules = _prefixes(setup, length), [like] if like else [*EXACT]
    faults, apart = {name: [] for name in rules}, dict.fromkeys(rules, 0)
    for prefix in prefixes:
        for draft in drafts_of(setup, prefix):
            rows = rows_of(setup, prefix, draft)
            got = verdicts(setup.verify, *rows)
            for name in rules:
                wanted = verdicts(EXACT[name], *rows)
                apart[name] += total_variation(got, wanted)
                fault = _fault(got, wanted, *rows)
                if fault:
                    branch, position, *values = fault
                    faults[name].append(
                        Blame(branch, position, prefix, rows[2], *values, f"{name} rule")
                    )
    name = min(apart, key=apart.get)
    if faults[name] and not distance(setup._replace(verify=EXACT[name]), length):
        return min(faults[name], key=lambda b: (len(b.prefix), b.position, len(b.tokens)))
    return next(filter(None, (_lie(setup, prefix) for prefix in prefixes)), Blame("noise", 0))


def _prefixes(setup, length):
    """Where rounds may start, one prefix for each context, shortest first."""
    known, found, frontier = set(), [], [()]
    while frontier:
        grown = []
        for prefix in frontier:
            if len(prefix) < length and setup.context(prefix) not in known:
                known.add(setup.context(prefix))
                found.append(prefix)
                grown += [(*prefix, t) for t, chance in enumerate(setup.target(prefix)) if chance]
        frontier = grown
    return found


def _fault(got, wanted, p_rows, q_rows, tokens):
    """The first branch where two laws of (tokens accepted, token after them) differ."""
    end = len(draft_laws(p_rows, q_rows, tokens))
    for i in range(len(tokens) + 1):
        for branch, part in (("acceptance", _beyond), (_name(i, end, tokens), _after)):
            a, b = part(got, i), part(wanted, i)
            if a != b:
                return branch, i, a, b
    return None


def _name(accepted, end, tokens):
    if accepted < end:
        return "residual"
    return "bonus" if end == len(tokens) else "end of the draft"


def _beyond(law, i):
    return sum(chance for (n, _), chance in law.items() if n > i)


def _after(law, i):
    """The law of the token after i accepted ones."""
    chances = {token: chance for (n, token), chance in law.items() if n == i and chance}
    total = sum(chances.values())
    return {token: chance / total for token, chance in chances.items()}


def _lie(setup, prefix):
    """Where the tokens of a draft do not follow the rows that are told."""
    drawn, rows = defaultdict(lambda: defaultdict(Fraction)), {}
    for draft, chance in drafts_of(setup, prefix).items():
        tokens = tuple(t for t, _ in draft)
        for i, (t, q) in enumerate(draft):
            drawn[tokens[:i]][t] += chance
            rows[tokens[:i], t] = {t: Fraction(1)} if q is None else q
    for before in sorted(drawn, key=lambda before: (len(before), before)):
        total = sum(drawn[before].values())
        law = {t: chance / total for t, chance in drawn[before].items() if chance}
        for t in law:
            q = rows[before, t]
            q = q if isinstance(q, dict) else {s: weight for s, weight in enumerate(q) if weight}
            if law != q:
                return Blame("draft", len(before), prefix, before, law, q, "row told")
    return None
