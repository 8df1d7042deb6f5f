# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding of SmolLM2-135M-Instruct beside plain decoding, on this machine's CPU.

Decodes one prompt greedily and once more by sampling, each time with a prompt-lookup draft through
SpeculativeDecoder and again without it, and shows speed, accepted lengths and that the two outputs
are the same tokens. Run it with `make demo`; options go in DEMO_ARGS.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import smollm2
import torch
from plain_decoding import plain_decode
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from spec_decode_ops import PromptLookup, SpeculativeDecoder, sample

# A job that copies much of its input, which is where prompt lookup pays.
PROMPT = """\
Correct the spelling of this letter and write it out in full.

Dear Ms. Okafor, thank you for your ordre of twelve oak chairs and two round tables. The chairs \
left our workshop in Lisbon on Tuesday and should reach you by Friday. The tables need one more \
coat of oil, so they will follow next week. We are sorry for the delay and will not charge you for \
the second delivry. Yours sincerely, Marta Reis"""

# Two forward passes over different numbers of tokens add up in another order, and so differ in the
# last bits of their logits. More than this is no rounding: the cache would be wrong.
ROUNDING = 1e-3


@dataclass
class Mode:
    """How tokens are chosen. The noise of a sampled token belongs to its position in the text."""

    title: str
    filters: dict
    seed: int = 0

    @property
    def greedy(self):
        return not self.filters

    def choose(self, row, position):
        if self.greedy:
            return int(row.argmax())
        return int(sample(row, seed=self.seed, offset=position, **self.filters))


@dataclass
class Run:
    """One decoding: its new tokens, its time, the row that decided each position, and if it was
    speculative the decoder's stats."""

    tokens: list
    seconds: float
    rows: dict
    stats: object = None

    @property
    def tokens_per_second(self):
        return len(self.tokens) / self.seconds


class TextWriter:
    """Prints tokens as text as they come; tokens that end inside a character wait for the rest."""

    def __init__(self, console, tokenizer):
        self.console = console
        self.tokenizer = tokenizer
        self.tokens = []
        self.written = 0

    def write(self, tokens, style=None):
        self.tokens += tokens
        text = self.tokenizer.decode(self.tokens, skip_special_tokens=True)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self.console.print(Text(text[self.written :], style or ""), end="", soft_wrap=True)
            self.written = len(text)


def fresh_target(model, prompt_ids):
    """(target_step, rows): a target that has read all of the prompt but its last token, and the
    rows it gives from now on, by position. A position read twice keeps its last row, which is the
    one that decided it."""
    cached = smollm2.CachedModel(model)
    cached.logits(prompt_ids[:-1])
    rows = {}

    def target_step(prefix, proposed=()):
        result = cached.logits(prefix, proposed)
        rows.update(enumerate(result, start=len(prefix)))
        return result

    return target_step, rows


def run_speculative(mode, model, tokenizer, prompt_ids, args, console):
    target_step, rows = fresh_target(model, prompt_ids)
    writer = TextWriter(console, tokenizer)

    def on_round(drafted, accepted, emitted):
        writer.write(emitted[:accepted], "green")
        writer.write(emitted[accepted:])

    decoder = SpeculativeDecoder(
        PromptLookup(),
        target_step,
        k=args.k,
        greedy=mode.greedy,
        inputs="logits",
        method="coupled",
        seed=mode.seed,
        eos_token_id=tokenizer.eos_token_id,
        on_round=on_round,
        **mode.filters,
    )
    start = time.perf_counter()
    text = decoder.generate(prompt_ids, max_new=args.max_new)
    seconds = time.perf_counter() - start
    console.print("\n")
    return Run(text[len(prompt_ids) :], seconds, rows, decoder.stats)


def run_plain(mode, model, tokenizer, prompt_ids, args, console):
    target_step, rows = fresh_target(model, prompt_ids)
    with progress_bar(console) as bar:
        task = bar.add_task("Plain decoding", total=args.max_new)
        start = time.perf_counter()
        tokens = plain_decode(
            target_step,
            mode.choose,
            prompt_ids,
            args.max_new,
            tokenizer.eos_token_id,
            on_token=lambda: bar.advance(task),
        )
        seconds = time.perf_counter() - start
        bar.update(task, total=len(tokens))
    return Run(tokens, seconds, rows)


def progress_bar(console):
    return Progress(
        SpinnerColumn(),
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def load_model(console):
    with progress_bar(console) as bar:
        task = bar.add_task("Loading SmolLM2", total=3)
        begun = 0

        def on_step(text):
            nonlocal begun
            bar.update(task, completed=begun, description=f"Loading SmolLM2: {text}")
            begun += 1

        loaded = smollm2.load(on_step)
        bar.update(task, completed=3, description="Loading SmolLM2: done")
    return loaded


def speed_table(plain, speculative):
    stats = speculative.stats
    table = Table("", "tokens", "seconds", "tokens/s", "target calls", "tokens/call")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, run, calls in (
        ("plain", plain, len(plain.tokens)),
        ("speculative", speculative, stats.target_calls),
    ):
        table.add_row(
            name,
            str(len(run.tokens)),
            f"{run.seconds:.2f}",
            f"{run.tokens_per_second:.1f}",
            str(calls),
            f"{len(run.tokens) / calls:.2f}",
        )
    return table


def time_line(stats):
    total = stats.draft_seconds + stats.target_seconds + stats.verify_seconds
    return (
        f"Time in the target {stats.target_seconds:.2f} s, the draft "
        f"{stats.draft_seconds * 1e3:.1f} ms, verification {stats.verify_seconds * 1e3:.1f} ms "
        f"({stats.verify_seconds / total:.2%})"
    )


def histogram(stats):
    table = Table("accepted", "rounds", "", title="Draft tokens accepted in a round")
    table.columns[0].justify = table.columns[1].justify = "right"
    most = max(stats.accepted_lengths.values())
    for length in range(max(stats.accepted_lengths) + 1):
        rounds = stats.accepted_lengths[length]
        table.add_row(str(length), str(rounds), "█" * -(-30 * rounds // most))
    table.caption = f"{stats.accepted} of {stats.drafted} draft tokens accepted"
    return table


def report_equality(mode, plain, speculative, prompt_ids, tokenizer, console):
    """Says whether the outputs are equal, and if not, where and why. False if the reason is
    anything but the rounding of the model's own logits."""
    if plain.tokens == speculative.tokens:
        console.print(
            f"[bold green]Equal to plain decoding, token for token[/] ({len(plain.tokens)} tokens)"
        )
        return True

    both = list(zip(plain.tokens, speculative.tokens))
    step = next((i for i, (a, b) in enumerate(both) if a != b), len(both))
    position = len(prompt_ids) + step
    console.print(f"[bold red]Not equal to plain decoding[/]: first differs at new token {step}")
    if step == len(both):
        console.print("One output ends there and the other goes on.")
        return False

    rows = plain.rows[position], speculative.rows[position]
    gap = rows[0].topk(2).values
    moved = float((rows[0] - rows[1]).abs().max())
    for name, row, run in zip(("plain", "speculative"), rows, (plain, speculative)):
        token = run.tokens[step]
        console.print(
            f"  {name}: {tokenizer.decode([token])!r} (id {token}), logits of the two candidates "
            f"{float(row[plain.tokens[step]]):.6f} and {float(row[speculative.tokens[step]]):.6f}"
        )
    console.print(
        f"  Plain decoding's two largest logits are {float(gap[0] - gap[1]):.2e} apart; the logits "
        f"of the two runs differ by up to {moved:.2e} there."
    )
    obeyed = mode.choose(rows[1], position) == speculative.tokens[step]
    if obeyed and moved < ROUNDING:
        console.print(
            "  Both tokens are right for their own logits: the model's logits depend, in their "
            "last bits, on how many tokens it reads at once."
        )
        return True
    return False


def show_mode(mode, model, tokenizer, prompt_ids, args, console):
    console.rule(mode.title)
    console.print("[dim]accepted draft tokens in[/] [green]green[/]\n")
    speculative = run_speculative(mode, model, tokenizer, prompt_ids, args, console)
    plain = run_plain(mode, model, tokenizer, prompt_ids, args, console)
    console.print(speed_table(plain, speculative))
    ratio = speculative.tokens_per_second / plain.tokens_per_second
    console.print(f"[bold]{ratio:.2f}x[/] the speed of plain decoding")
    console.print(time_line(speculative.stats))
    console.print(histogram(speculative.stats))
    right = report_equality(mode, plain, speculative, prompt_ids, tokenizer, console)
    console.print()
    return right


def modes(args):
    filters = {
        "temperature": args.temperature,
        "top_k": args.top_k,
        "top_p": args.top_p,
        "min_p": args.min_p,
    }
    options = ", ".join(f"{name} {value}" for name, value in filters.items() if value)
    greedy = Mode("Greedy", {})
    sampling = Mode(f"Sampling: {options}, seed {args.seed}; coupled rule", filters, args.seed)
    if args.greedy_only:
        return [greedy]
    return [sampling] if args.sampling_only else [greedy, sampling]


def parse_args(argv):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--prompt", default=PROMPT, help="what the user asks")
    add("--max-new", type=int, default=128, help="new tokens, at most")
    add("--k", type=int, default=10, help="draft tokens a round, at most")
    add("--temperature", type=float, default=0.8, help="of the sampling mode")
    add("--top-p", type=float, default=0.95, help="of the sampling mode; 1 is off")
    add("--top-k", type=int, default=0, help="of the sampling mode; 0 is off")
    add("--min-p", type=float, default=0.0, help="of the sampling mode; 0 is off")
    add("--seed", type=int, default=7, help="of the sampling mode")
    add("--threads", type=int, default=torch.get_num_threads(), help="CPU threads for the model")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--greedy-only", action="store_true", help="leave out the sampling mode")
    only.add_argument("--sampling-only", action="store_true", help="leave out the greedy mode")
    args = parser.parse_args(argv)
    if args.max_new < 1 or args.threads < 1 or args.k < 0:
        parser.error("want --max-new and --threads of 1 or more, and --k of 0 or more")
    return args


def main(argv=None):
    args = parse_args(argv)
    console = Console()
    torch.set_num_threads(args.threads)
    model, tokenizer = load_model(console)
    prompt_ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": args.prompt}], add_generation_prompt=True, return_dict=False
    )
    console.print(f"\n[bold]Prompt[/] ({len(prompt_ids)} tokens, {args.threads} threads)")
    console.print(Text(args.prompt, "dim"), soft_wrap=True)
    right = [show_mode(mode, model, tokenizer, prompt_ids, args, console) for mode in modes(args)]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
