# SPDX-License-Identifier: Apache-2.0
"""Figures of the kind that such packages publish: what was measured, its analytic value, what
chance alone would leave between the two (the floor), and the limit that a right package exceeds
with probability fit.ALPHA at most.

Tests make and `record` them; `python tests/figures.py` prints all that are recorded, as Markdown.
"""

import json
import re
import time
from pathlib import Path
from typing import NamedTuple, Optional

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
    kept = {**figure._asdict(), "date": time.strftime("%Y-%m-%d")}
    name = re.sub(r"\W+", "-", figure.name).strip("-")
    (RECORDS / f"{name}.json").write_text(json.dumps(kept, indent=1))
    return figure.misfit < 1


def number(x):
    if x is None:
        return "-"
    if x == int(x) and abs(x) < 1e7:
        return str(int(x))
    return f"{x:.4g}" if abs(x) >= 0.01 else f"{x:.1e}"


def markdown(figures):
    """Rows of the table, the figures of one test together."""
    yield "| figure | trials | measured | law | apart | floor | limit | published | `-k` |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|---|"
    for f in sorted(figures, key=lambda f: (f.test, f.name)):
        columns = f.measured, f.wanted, f.apart, f.floor, f.limit, f.published
        cells = " | ".join(map(number, columns))
        yield f"| {f.name} | {f.trials} | {cells} | {f.test} |"


def main():
    records = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]
    if not records:
        raise SystemExit("No figure is recorded yet: make stats")
    dates = sorted({kept.pop("date") for kept in records})
    print(f"Measured {' to '.join({dates[0]: 0, dates[-1]: 0})}.\n")
    print("\n".join(markdown(Figure(**kept) for kept in records)))


if __name__ == "__main__":
    main()
