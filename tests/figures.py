# SPDX-License-Identifier: Apache-2.0
"""Figures of the kind that such packages publish: what was measured, its analytic value, what
chance alone would leave between the two (the floor), and the limit that a right package exceeds
with probability fit.ALPHA at most.

Tests make and `record` them; `python tests/figures.py` prints all that are recorded, as Markdown.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple, Optional

from fit import ALPHA

RECORDS = Path(__file__).resolve().parent.parent / ".build" / "statistics"


class Figure(NamedTuple):
    name: str
    trials: int
    measured: float
    wanted: float
    apart: float
    floor: float  # the mean of `apart`, or a bound on it, for a right package
    limit: float
    published: Optional[float] = None  # `apart` on the card of an earlier package
    test: str = ""  # make stats TEST_ARGS="-k test"

    @property
    def misfit(self):
        """Above 1 the package is wrong."""
        return self.apart / self.limit


def record(figure):
    """Keep it for the table; whether it is within its limit."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", figure.name).strip("-")
    (RECORDS / f"{name}.json").write_text(json.dumps(figure._asdict(), indent=1))
    return figure.misfit < 1


def number(x):
    if x == int(x):
        return str(int(x))
    return f"{x:.4g}" if abs(x) >= 0.01 else f"{x:.1e}"


def between(values):
    """One number, or the least and the largest."""
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"


def claims(figures):
    """Rows of what earlier packages published beside ours, a claim over all its settings: the name
    of a figure is "setting: claim"."""
    yield "| claim | published | ours | floor | trials, each | `-k` |"
    yield "|---|--:|--:|--:|--:|---|"
    groups = {}
    for f in figures:
        if f.published is not None:
            groups.setdefault((f.test, f.name.split(": ")[-1]), []).append(f)
    for (test, claim), some in sorted(groups.items()):
        settings = f", {len(some)} settings" if len(some) > 1 else ""
        published, ours, floor, trials = (
            between([getattr(f, column) for f in some])
            for column in ("published", "apart", "floor", "trials")
        )
        yield f"| {claim}{settings} | {published} | {ours} | {floor} | {trials} | {test} |"


def table(figures):
    """Rows of all figures, those of one test together."""
    yield "| figure | trials | measured | law | apart | floor | limit | `-k` |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    for f in sorted(figures, key=lambda f: (f.test, f.name)):
        cells = " | ".join(map(number, (f.measured, f.wanted, f.apart, f.floor, f.limit)))
        yield f"| {f.name} | {f.trials} | {cells} | {f.test} |"


def page(figures):
    yield from (
        "# Statistics",
        "",
        'Printed by `make stats`, or a row by its last column: `make stats TEST_ARGS="-k WORD"`. '
        "The seeds are fixed",
        "and nothing is run twice; as the tokens are, the figures are the same on every machine. "
        "*Apart* is how far the",
        "measured value is from the law; *floor* what it is on average for a perfect package, by "
        "chance alone; *limit* what a",
        f"perfect package exceeds with probability {ALPHA:g} at most.",
        "",
        "## Beside the figures that earlier packages published",
        "",
        *claims(figures),
        "",
        "## All",
        "",
        *table(figures),
    )


def main():
    records = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]
    if not records:
        raise SystemExit("No figure is recorded yet: make stats")
    print("\n".join(page([Figure(**kept) for kept in records])))


if __name__ == "__main__":
    main()
