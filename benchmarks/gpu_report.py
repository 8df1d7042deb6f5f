# SPDX-License-Identifier: Apache-2.0
"""What gpu_check.py found, as JSON and as a table."""

import json
import platform
import re
import subprocess
import time

import torch

COLUMNS = (
    f"{'op':26} {'V':>7} {'M':>4} {'dtype':9} {'family':10} "
    f"{'graph':>9} {'model':>9} {'cold':>9} {'model':>9} {'eager':>9} {'GB/s':>7} {'/copy':>6}"
)
NOTES = """\
us of one call, medians. graph: in a CUDA graph of several calls on the same input, not flushed, so
that rows that fit in L2 are there. cold: L2 flushed before each call of the graph, the flushes'
time taken off. eager: calls from Python one after another, the host's time included where it is
longer. model: the prediction of benchmarks/model.py for that column, made before this run, for
normal rows. GB/s: bytes that have to be read or written once, over the graph's time; /copy: that as
a fraction of this card's copy, which may pass 1 from L2. Others are timed in a graph where they can
be captured, with the ratio of theirs to ours. verify: M sequences of 4 drafts."""


def number(value, width=9, digits=1):
    return f"{value:{width}.{digits}f}" if value is not None else "-".rjust(width)


def line(row):
    if "error" in row:
        return f"{row['op']:26} {row['vocab']:7} {row['rows']:4} {row['dtype']:9} " + (
            f"{row['family']:10} {row['error']}"
        )
    text = f"{row['op']:26} {row['vocab']:7} {row['rows']:4} {row['dtype']:9} {row['family']:10} "
    for key in ("graph_us", "model_us", "cold_us", "model_cold_us", "eager_us"):
        text += number(row.get(key)) + " "
    text += f"{number(row['gbs'], 7, 0)} {number(row['of_copy'], 6, 3)}"
    for name, theirs in row.get("rivals", {}).items():
        if "error" in theirs:
            text += f"\n{'':34}{name}: {theirs['error']}"
            continue
        in_graph = theirs.get("graph_us")
        took, ours = (
            (in_graph, row["graph_us"]) if in_graph else (theirs["eager_us"], row["eager_us"])
        )
        how = "graph" if in_graph else "eager"
        text += f"\n{'':34}{name}: {took:.1f} us ({how}), {took / ours:.1f}x ours"
    return text


def as_text(report):
    head = [f"{key}: {value}" for key, value in report["about"].items()]
    stages = [
        f"{s['stage']}: {s['status']} ({s['seconds']:.0f} s) {s['text']}" for s in report["stages"]
    ]
    left_out = [f"left out: {text}" for text in report["left_out"]]
    rows = [line(row) for row in report["rows"]]
    return "\n".join([*head, "", *stages, "", *left_out, "", NOTES, "", COLUMNS, *rows]) + "\n"


def driver_and_clocks():
    query = "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem,power.limit"
    try:
        return subprocess.check_output(
            ["nvidia-smi", query, "--format=csv,noheader"], text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return "nvidia-smi did not say"


def about(clock, library, on_gpu):
    """Where and with what the run was made."""
    here = {
        "times": clock.name,
        "date": time.strftime("%Y-%m-%d"),
        "library": library,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if on_gpu:
        properties = torch.cuda.get_device_properties(0)
        here["card"] = properties.name
        here["multiprocessors"] = properties.multi_processor_count
        here["L2 MB"] = properties.L2_cache_size / 1e6
        here["driver, SM and memory clock, power limit"] = driver_and_clocks()
    return here


def write(report, folder, stem):
    """Two files, `stem`.json and `stem`.txt; the latter's path."""
    stem = re.sub(r"[^A-Za-z0-9.]+", "-", stem).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.json").write_text(json.dumps(report, indent=1) + "\n")
    path = folder / f"{stem}.txt"
    path.write_text(as_text(report))
    return path
