# SPDX-License-Identifier: Apache-2.0
"""transformers' own assisted generation and spec_generate, in one run: the same prompts, models and
drafts, one after the other on each prompt, on SmolLM2-135M.

    python benchmarks/peers.py --threads 2

Prompts that copy, which is where prompt lookup pays, and prompts that do not, where it should cost
nothing. The draft model is SmolLM2's own first layers, shared by both ways. It needs what `make
demo` installs. Speeds are tokens a second over all prompts of a set; "in the model" is the time in
forward passes, "outside" the rest: drafting by lookup, verification, caches and the loop.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import smollm2  # noqa: E402
from spec_decode_ops import DecodeStats, spec_generate  # noqa: E402

LETTER = (
    "Dear Ms. Okafor, thank you for your order of twelve oak chairs and two round tables. The "
    "chairs left our workshop in Lisbon on Tuesday and should reach you by Friday. The tables need "
    "one more coat of oil, so they will follow next week. Yours sincerely, Marta Reis"
)
CODE = (
    "def area(width, height):\n    return width * height\n\ndef perimeter(width, height):\n"
    "    return 2 * width + 2 * height\n\ndef diagonal(width, height):\n"
    "    return (width * width + height * height) ** 0.5\n"
)
SETS = {
    "copies": [
        f"Repeat this letter word for word.\n\n{LETTER}",
        f"Repeat this code exactly.\n\n{CODE}",
        f"Correct the spelling and write it out in full.\n\n{LETTER.replace('order', 'ordre')}",
        "Copy this list: apples, pears, plums, cherries, quinces, figs, dates, olives, lemons, "
        "limes, oranges, grapes, melons, berries, nuts, seeds, roots, leaves.",
    ],
    "does not copy": [
        "Write a short story about a lighthouse keeper.",
        "Explain why the sky is blue to a child.",
        "Give advice to somebody who starts a garden.",
        "Describe a market in a small town on a winter morning.",
    ],
}


@dataclass
class Tally:
    """What one way of decoding did over a set of prompts."""

    tokens: int = 0
    seconds: float = 0.0
    in_target: float = 0.0
    in_draft: float = 0.0
    calls: int = 0
    verify: float = 0.0
    accepted: int = 0
    rounds: int = 0


class Clock:
    """Counts a model's forward passes, and their seconds."""

    def __init__(self, model):
        self.calls, self.seconds, self._start = 0, 0.0, 0.0
        model.register_forward_pre_hook(self._begin)
        model.register_forward_hook(self._end)

    def _begin(self, *_):
        self._start = time.perf_counter()

    def _end(self, *_):
        self.calls += 1
        self.seconds += time.perf_counter() - self._start


def ways(draft):
    ours = {"custom_generate": spec_generate}
    return {
        "plain": {},
        "lookup, transformers": {"prompt_lookup_num_tokens": 10},
        "lookup, ours": {**ours, "prompt_lookup_num_tokens": 10},
        "draft model, transformers": {"assistant_model": draft},
        "draft model, ours": {**ours, "assistant_model": draft},
    }


def run(model, inputs, clocks, tally, max_new, options):
    target, draft = clocks
    before = target.seconds, draft.seconds, target.calls
    stats = DecodeStats()
    if "custom_generate" in options:
        options = {**options, "stats": stats}
    start = time.perf_counter()
    ids = model.generate(
        **inputs, max_new_tokens=max_new, min_new_tokens=None, do_sample=False, **options
    )
    tally.seconds += time.perf_counter() - start
    tally.tokens += ids.shape[1] - inputs["input_ids"].shape[1]
    tally.in_target += target.seconds - before[0]
    tally.in_draft += draft.seconds - before[1]
    tally.calls += target.calls - before[2]
    tally.verify += stats.verify_seconds
    tally.accepted += stats.accepted
    tally.rounds += stats.rounds
    return ids


def measure(model, draft, tokenizer, prompts, args):
    """A Tally for each way, the share of texts equal to plain decoding, and the median over prompts
    of the speed relative to plain decoding."""
    clocks, tallies, equal, ratios = (Clock(model), Clock(draft)), {}, defaultdict(int), {}
    ratios = defaultdict(list)
    for prompt in prompts:
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        inputs = {name: ids[name] for name in ("input_ids", "attention_mask")}
        plain, speed = None, {}
        for name, options in ways(draft).items():
            if args.ways and not any(word in name for word in ("plain", *args.ways)):
                continue
            tally = tallies.setdefault(name, Tally())
            before = tally.seconds, tally.tokens
            out = run(model, inputs, clocks, tally, args.max_new, options)
            plain = out if plain is None else plain
            equal[name] += out.shape == plain.shape and torch.equal(out, plain)
            speed[name] = (tally.tokens - before[1]) / (tally.seconds - before[0])
            ratios[name].append(speed[name] / speed["plain"])
    return tallies, equal, ratios


def table(name, prompts, tallies, equal, ratios):
    plain = tallies["plain"]
    lines = [
        f"{name} ({len(prompts)} prompts)",
        "",
        "| way | tokens/s | x plain | median x | tokens a call | accepted a round | in the target "
        "| in the draft | outside | verification | equal to plain |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for way, tally in tallies.items():
        speed = tally.tokens / tally.seconds
        ratio = speed / (plain.tokens / plain.seconds)
        outside = tally.seconds - tally.in_target - tally.in_draft
        ours = tally.rounds > 0
        lines.append(
            f"| {way} | {speed:.1f} | {ratio:.2f} | {statistics.median(ratios[way]):.2f} "
            f"| {tally.tokens / tally.calls:.2f} "
            f"| {f'{tally.accepted / tally.rounds:.2f}' if ours else '-'} "
            f"| {tally.in_target / tally.seconds:.1%} | {tally.in_draft / tally.seconds:.1%} "
            f"| {outside / tally.seconds:.1%} "
            f"| {f'{tally.verify / tally.seconds:.2%}' if ours else '-'} "
            f"| {equal[way]} of {len(prompts)} |"
        )
    return "\n".join(lines)


def main(argv=None, load=smollm2.load):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--max-new", type=int, default=96)
    parser.add_argument("--prompts", type=int, default=4, help="of each set, at most")
    parser.add_argument("--layers", type=int, default=15, help="of the draft model")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--ways", nargs="*", help='words of the ways to run, e.g. "lookup"')
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    model, tokenizer = load()
    draft = smollm2.first_layers(model, args.layers)
    warm = torch.tensor([[1, 2, 3]])
    model.generate(warm, attention_mask=torch.ones_like(warm), max_new_tokens=8, do_sample=False)
    print(f"torch {torch.__version__}, {args.threads} thread(s), {args.max_new} new tokens\n")
    for name in args.sets:
        prompts = SETS[name][: args.prompts]
        print(table(name, prompts, *measure(model, draft, tokenizer, prompts, args)) + "\n")


if __name__ == "__main__":
    main()
