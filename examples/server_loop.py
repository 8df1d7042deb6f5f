# SPDX-License-Identifier: Apache-2.0
"""A server's loop: requests come and go, and one call of `verify` serves a ragged batch of them.

Each request has its own temperature, seed and length, and a draft of its own size by prompt lookup.
Under the coupled rule, with a seed a row and the position in the text as offset, a request's tokens
do not depend on who is served beside it: at the end each is decoded alone and compared.

The model is a table of random logits that favours a cycle of tokens, so that nothing is needed but
torch; a server would call its own, with a cache.
"""

import argparse
from collections import deque
from dataclasses import dataclass, field

import torch
from spec_decode_ops import PromptLookup, sample, verify

VOCAB, SLOTS, K = 200, 4, 5


@dataclass
class Request:
    name: str
    text: list
    max_new: int
    temperature: float
    seed: int
    draft: PromptLookup = field(default_factory=PromptLookup)
    new: int = 0

    def proposal(self):
        left = self.max_new - self.new
        return self.draft(list(self.text), min(K, left - 1))[0] if left > 1 else []


class TableModel:
    """Next-token logits from the last two tokens."""

    def __init__(self):
        g = torch.Generator().manual_seed(0)
        self.logits = 2 * torch.randn(VOCAB, VOCAB, generator=g)
        cycle = torch.arange(VOCAB)
        self.logits[cycle, (cycle // 8 * 8 + (cycle + 1) % 8) % VOCAB] += 12

    def rows(self, texts, drafts):
        """[B, k + 1, V]: row i of a request follows its text and its first i draft tokens."""
        last = torch.zeros(len(texts), max(map(len, drafts)) + 1, dtype=torch.int64)
        for row, text, draft in zip(last, texts, drafts):
            row[: len(draft) + 1] = torch.tensor([text[-1], *draft])
        return self.logits[last]


def serve_round(model, active):
    """Adds to each active request's text what one target call gives."""
    drafts = [request.proposal() for request in active]
    rows = model.rows([request.text for request in active], drafts)
    tokens = torch.full((len(active), rows.shape[1] - 1), -1)  # -1 ends a row's draft
    for row, draft in zip(tokens, drafts):
        row[: len(draft)] = torch.tensor(draft, dtype=torch.int64)
    accept_len, out = verify(
        rows,
        None,
        tokens,
        temperature=torch.tensor([request.temperature for request in active]),
        seed=torch.tensor([request.seed for request in active]),
        offset=torch.tensor([len(request.text) for request in active]),
        method="coupled",
    )
    for request, n, row in zip(active, accept_len.tolist(), out.tolist()):
        request.text += row[: n + 1]
        request.new += n + 1


def serve(model, requests):
    """The requests in the order in which they finish, and how many target calls they took."""
    waiting, active, done, calls = deque(requests), [], [], 0
    while waiting or active:
        while waiting and len(active) < SLOTS:
            active.append(waiting.popleft())
        serve_round(model, active)
        calls += 1
        done += [request for request in active if request.new == request.max_new]
        active = [request for request in active if request.new < request.max_new]
    return done, calls


def alone(model, request, prompt):
    """The request's text by plain sampling, one token after another."""
    text = list(prompt)
    for _ in range(request.max_new):
        row = model.rows([text], [[]])[:, 0]
        seed = torch.tensor([request.seed])
        text.append(int(sample(row, request.temperature, seed=seed, offset=len(text))))
    return text


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--requests", type=int, default=12)
    args = parser.parse_args(argv)
    model, prompts, requests = TableModel(), {}, []
    for i in range(args.requests):
        prompts[f"request {i}"] = prompt = [(37 * i) % VOCAB, (11 * i + 5) % VOCAB]
        temperature = (0.0, 0.7, 1.0, 1.5)[i % 4]
        requests.append(
            Request(f"request {i}", list(prompt), 20 + 13 * i % 40, temperature, 100 + i)
        )
    done, calls = serve(model, requests)
    tokens = sum(request.new for request in done)
    for request in done:
        assert request.text == alone(model, request, prompts[request.name]), request.name
        print(f"{request.name}: {request.new} tokens at temperature {request.temperature}")
    print(f"{tokens} tokens in {calls} target calls; each text is that of its request alone")
    return done, calls


if __name__ == "__main__":
    main()
