# SPDX-License-Identifier: Apache-2.0
"""Pictures of what benchmarks/sweep.py measured: `python benchmarks/plots.py FILE FOLDER`.

times.png    time of a call against the vocabulary and against the batch, ours and eager
ratios.png   against the vocabulary: the share of a call that only reading takes, and the speed-up
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

COLOURS = ["#0b6e99", "#d9730d", "#6940a5", "#4d8b31"]  # one for each way to sample
DPI = 120


def lines(rows):
    """{what: its rows}, in the order they were measured."""
    found = {}
    for row in rows:
        found.setdefault(row["what"], []).append(row)
    return found


def panel(axes, title, x, y):
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_xscale("log", base=2)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def draw_times(axes, rows, against):
    for (what, some), colour in zip(lines(rows).items(), COLOURS):
        x = [row[against] for row in some]
        axes.plot(x, [row["ours_us"] for row in some], "o-", ms=3, color=colour, label=what)
        axes.plot(x, [row["eager_us"] for row in some], ":", lw=1.2, color=colour)
    floor = next(iter(lines(rows).values()))
    axes.plot(
        [row[against] for row in floor],
        [row["floor_us"] for row in floor],
        "--",
        lw=1,
        color="black",
        label="reading the rows",
    )
    axes.plot([], [], ":", color="grey", label="eager torch")
    axes.set_yscale("log")


def caption(results):
    of = results["machine"]
    return (
        f"{of['cpu']}, {of['target']}, torch {of['torch']}, one thread, {of['date']}; medians of "
        f"{results['runs']} turns"
    )


def save(figure, results, path):
    figure.text(0.01, 0.01, caption(results), fontsize=7, color="grey")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, dpi=DPI)
    plt.close(figure)


def times(results, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    panel(left, "sample, one row", "vocabulary", "microseconds a call")
    draw_times(left, results["by_vocab"], "vocab")
    vocab = results["by_batch"][0]["vocab"]
    panel(right, f"sample, rows of {vocab} tokens", "batch", "")
    draw_times(right, results["by_batch"], "batch")
    left.legend(fontsize=7, frameon=False)
    save(figure, results, path)


def ratios(results, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    panel(left, "share of a call that only reading the row would take", "vocabulary", "")
    panel(right, "speed-up over the eager chain", "vocabulary", "times")
    for (what, rows), colour in zip(lines(results["by_vocab"]).items(), COLOURS):
        x = [row["vocab"] for row in rows]
        style = {"ms": 3, "color": colour, "label": what}
        left.plot(x, [row["floor_us"] / row["ours_us"] for row in rows], "o-", **style)
        right.plot(x, [row["eager_us"] / row["ours_us"] for row in rows], "o-", **style)
    left.set_ylim(0, 1)
    left.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
    right.set_yscale("log")
    right.axhline(1, lw=0.8, color="black")
    left.legend(fontsize=7, frameon=False)
    save(figure, results, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    results = json.loads(arguments.file.read_text())
    arguments.folder.mkdir(parents=True, exist_ok=True)
    times(results, arguments.folder / "times.png")
    ratios(results, arguments.folder / "ratios.png")


if __name__ == "__main__":
    main()
