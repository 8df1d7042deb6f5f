# SPDX-License-Identifier: Apache-2.0
"""What is timed: each op beside the eager torch code that people write in its place."""

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

FULL = {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.1}
TOP_P = {"temperature": 0.8, "top_p": 0.95}
PLAIN = {"temperature": 0.8}


def chain(**filters):
    """transformers' logits processors for these filters, in the order `generate` runs them."""
    make = {
        "repetition_penalty": RepetitionPenaltyLogitsProcessor,
        "temperature": TemperatureLogitsWarper,
        "top_k": TopKLogitsWarper,
        "top_p": TopPLogitsWarper,
        "min_p": MinPLogitsWarper,
    }
    return LogitsProcessorList(make[name](filters[name]) for name in make if name in filters)


def eager_draw(processors, ids, logits):
    return torch.multinomial(torch.softmax(processors(ids, logits), -1), 1)


def eager_accept(p, q, tokens):
    """Speculative sampling over all rows at once, from rows that need not be normalised."""
    p = p / p.sum(-1, keepdim=True)
    q = q / q.sum(-1, keepdim=True)
    at = tokens[:, None]
    u = torch.rand(len(tokens))
    accepted = u * q.gather(1, at)[:, 0] < p[:-1].gather(1, at)[:, 0]
    n = int(accepted.long().cumprod(0).sum())
    weights = (p[n] - q[n]).clamp(min=0) if n < len(tokens) else p[n]
    return n, int(torch.multinomial(weights, 1))


def eager_verify_greedy(p, tokens):
    best = p.argmax(-1)
    n = int((best[:-1] == tokens).long().cumprod(0).sum())
    return n, int(best[n])


def logit_rows(rows, vocab, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(rows, vocab, generator=generator) * 3).to(dtype)


def history(vocab, length=200):
    return torch.randint(vocab, (1, length), generator=torch.Generator().manual_seed(1))


def drafted(sdo, vocab, drafts, rejected_at):
    """Target and draft logits and draft tokens of which `rejected_at` are accepted: the draft is
    the target itself up to there, and then off by N(0, 1/4), with a token that is never right."""
    target = logit_rows(drafts + 1, vocab)
    draft = target[:drafts].clone()
    off = torch.randn(draft[rejected_at:].shape, generator=torch.Generator().manual_seed(2))
    draft[rejected_at:] += 0.5 * off
    tokens = sdo.sample(draft, seed=2)
    if rejected_at < drafts:
        target[rejected_at, tokens[rejected_at]] = -torch.inf
    return target, draft, tokens


def accepted_by_coupling(sdo, target, ids=None, **arguments):
    """Draft tokens [k] for target rows [k + 1, V], all of which the coupled rule accepts."""
    tokens = torch.full((1, len(target) - 1), -1)
    for _ in range(len(target)):
        length, out = sdo.verify(
            target[None], None, tokens, prev_tokens=ids, method="coupled", **arguments
        )
        tokens = out[:, :-1]
    assert length == len(target) - 1
    return tokens[0]


def cases(sdo, vocab):
    """(what, ours, eager) for one row of `vocab` tokens."""
    x, ids = logit_rows(1, vocab), history(vocab)
    half = x.bfloat16()
    full, top_p, plain = chain(**FULL), chain(**TOP_P), chain(**PLAIN)
    target, draft, tokens = drafted(sdo, vocab, drafts=4, rejected_at=2)
    p, q = target.softmax(-1), draft.softmax(-1)
    greedy_p, _, _ = drafted(sdo, vocab, drafts=4, rejected_at=4)
    best = greedy_p[:4].argmax(-1)
    batch = (target[None], draft[None], tokens[None])
    coupled = {"temperature": 0.8, "seed": 3, "top_k": 50, "top_p": 0.95}
    rows = logit_rows(5, vocab)
    agreed = accepted_by_coupling(sdo, rows, **coupled)[None]
    with_top_k = chain(temperature=0.8, top_k=50, top_p=0.95)
    verify_eager = sdo.reference.eager_verify
    return [
        (
            "sample, T .8, k 50, p .95, min_p .05, penalty over 200 ids",
            lambda: sdo.sample(x, prev_tokens=ids, seed=3, **FULL),
            lambda: eager_draw(full, ids, x),
        ),
        (
            "the same, bfloat16",
            lambda: sdo.sample(half, prev_tokens=ids, seed=3, **FULL),
            lambda: eager_draw(full, ids, half.float()),
        ),
        (
            "sample, T .8, p .95",
            lambda: sdo.sample(x, seed=3, **TOP_P),
            lambda: eager_draw(top_p, ids, x),
        ),
        (
            "sample, T .8",
            lambda: sdo.sample(x, seed=3, **PLAIN),
            lambda: eager_draw(plain, ids, x),
        ),
        ("sample, greedy", lambda: sdo.sample(x, 0), lambda: x.argmax(-1)),
        (
            "filter_logits, T .8, k 50, p .95, min_p .05, penalty",
            lambda: sdo.filter_logits(x, prev_tokens=ids, **FULL),
            lambda: full(ids, x),
        ),
        (
            "filter_logits, T .8, p .95",
            lambda: sdo.filter_logits(x, **TOP_P),
            lambda: top_p(ids, x),
        ),
        (
            "verify, 4 drafts, 2 accepted",
            lambda: sdo.verify(*batch, 0.8, seed=3),
            lambda: verify_eager(*batch, 0.8),
        ),
        (
            "verify, coupled, k 50, p .95, 4 drafts, all accepted",
            lambda: sdo.verify(rows[None], None, agreed, **coupled, method="coupled"),
            lambda: eager_draw(with_top_k, ids, rows),
        ),
        (
            "accept, 4 drafts, 2 accepted",
            lambda: sdo.accept(p, q, tokens),
            lambda: eager_accept(p, q, tokens),
        ),
        (
            "verify_greedy, 4 drafts, all accepted",
            lambda: sdo.verify_greedy(greedy_p, best),
            lambda: eager_verify_greedy(greedy_p, best),
        ),
    ]
