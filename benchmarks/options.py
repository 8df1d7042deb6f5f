# SPDX-License-Identifier: Apache-2.0
"""What a call's options cost, as a Markdown table: `python benchmarks/options.py`.

The same call with and without the option, in turns (benchmarks/table.py); medians.
For return_logprobs the eager torch code that gives the same two numbers stands beside it.
"""

import argparse
import os

import kernels
import torch
from cases import drafted, logit_rows
from table import ROOT, medians

CHAINS = {
    "T 1": {},
    "T .8": {"temperature": 0.8},
    "T .8, k 50, p .95": {"temperature": 0.8, "top_k": 50, "top_p": 0.95},
    "T .8, p .95": {"temperature": 0.8, "top_p": 0.95},
    "greedy": {"temperature": 0.0},
}


def eager_logprobs(x, token, temperature):
    """Of unfiltered sampling: what stands beside multinomial in a loop of eager code."""
    at = token[:, None]
    scaled = x.float() / (temperature or 1.0)
    return scaled.log_softmax(-1).gather(1, at), x.float().log_softmax(-1).gather(1, at)


def logprobs(sdo, vocab):
    """(what, plain, with the option, eager for what the option gives)"""
    x = logit_rows(1, vocab)
    token = sdo.sample(x, seed=3)
    for name, chain in CHAINS.items():
        yield (
            f"sample, {name}",
            lambda chain=chain: sdo.sample(x, seed=3, **chain),
            lambda chain=chain: sdo.sample(x, seed=3, return_logprobs=True, **chain),
            lambda chain=chain: eager_logprobs(x, token, chain.get("temperature", 1.0)),
        )
    target, draft, tokens = (t[None] for t in drafted(sdo, vocab, drafts=4, rejected_at=2))
    for name in ("T .8", "T .8, k 50, p .95"):
        chain = CHAINS[name]
        yield (
            f"verify, {name}, 4 drafts, 2 accepted",
            lambda chain=chain: sdo.verify(target, draft, tokens, seed=3, **chain),
            lambda chain=chain: sdo.verify(
                target, draft, tokens, seed=3, return_logprobs=True, **chain
            ),
            lambda: eager_logprobs(target[0, :3], tokens[0, :3], 0.8),
        )


def draft_token_ids(sdo, vocab):
    """(what, a draft as wide as the target, the reduced one)"""
    target, draft, tokens = (t[None] for t in drafted(sdo, vocab, drafts=4, rejected_at=2))
    generator = torch.Generator().manual_seed(4)
    ids = torch.cat([torch.randperm(vocab, generator=generator)[: vocab // 4], tokens[0]])
    ids = ids.unique()
    wide = torch.full_like(draft, -torch.inf)
    wide[..., ids] = draft[..., ids]
    narrow = draft[..., ids].contiguous()
    yield (
        f"verify, T .8, 4 drafts, 2 accepted, draft of {len(ids)}",
        lambda: sdo.verify(target, wide, tokens, 0.8, seed=3),
        lambda: sdo.verify(target, narrow, tokens, 0.8, seed=3, draft_token_ids=ids),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab", type=int, nargs="+", default=[32000, 128256])
    parser.add_argument("--runs", type=int, default=31)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("LOCAL_KERNELS", f"phanerozoic/spec-decode-ops={ROOT}")
    sdo = kernels.get_kernel(
        "phanerozoic/spec-decode-ops", version=1, trust_remote_code=True, backend="cpu"
    )
    print("| return_logprobs | V | without, us | with, us | it costs, us | eager, us |")
    print("|---|---|---|---|---|---|")
    for vocab in arguments.vocab:
        for what, plain, asked, eager in logprobs(sdo, vocab):
            without, with_ = medians(plain, asked, arguments.runs)
            _, theirs = medians(plain, eager, arguments.runs)
            cells = f"{without:.0f} | {with_:.0f} | {with_ - without:.0f} | {theirs:.0f}"
            print(f"| {what} | {vocab} | {cells} |")
    print("\n| draft_token_ids | V | wide draft, us | reduced draft, us |")
    print("|---|---|---|---|")
    for vocab in arguments.vocab:
        for what, wide, narrow in draft_token_ids(sdo, vocab):
            without, with_ = medians(wide, narrow, arguments.runs)
            print(f"| {what} | {vocab} | {without:.0f} | {with_:.0f} |")


if __name__ == "__main__":
    main()
