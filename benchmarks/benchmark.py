# SPDX-License-Identifier: Apache-2.0
"""For `kernels benchmark`: each op beside the eager torch code that people write in its place.

    kernels benchmark phanerozoic/spec-decode-ops --version 1     # or ./, after `make kernel`

The runner times `benchmark_NAME`, compares its `self.out` with what `verify_NAME` returns, and
takes the time of the latter as the reference of its speed-up. So `verify_NAME` does the whole eager
work. It draws other random numbers: of drawn tokens it returns those that it would keep too.
"""

import torch
from kernels.benchmark import Benchmark

DRAFTS = 4
FILTERS = {"temperature": 0.8, "top_k": 50, "top_p": 0.95}


def eager_filter(logits, temperature, top_k, top_p):
    """What transformers' temperature, top-k and top-p processors do."""
    x = logits.float() / temperature
    x = x.masked_fill(x < x.topk(top_k).values[..., -1:], -torch.inf)
    ascending, order = x.sort(-1)
    drop = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
    drop[..., -1:] = False
    return x.masked_fill(drop.scatter(-1, order, drop), -torch.inf)


def eager_accept(p, q, tokens):
    """How many tokens stand, and the token after them, of one sequence."""
    u = torch.rand(len(tokens), device=p.device)
    at = tokens[:, None]
    stands = u * q.gather(1, at)[:, 0] < p[:-1].gather(1, at)[:, 0]
    n = int(stands.long().cumprod(0).sum())
    weights = (p[n] - q[n]).clamp(min=0) if n < len(tokens) else p[n]
    return n, int(weights.multinomial(1))


class OneSequence(Benchmark):
    """What a single decoding loop has: one row, or the rows of one round."""

    seed = 0
    batch, vocab = 1, 128256

    def setup(self):
        self.x = 3 * torch.randn(self.batch, self.vocab, device=self.device)
        # Draft and target are one model, so that every draft token is accepted, by whatever noise.
        self.target = 3 * torch.randn(self.batch, DRAFTS + 1, self.vocab, device=self.device)
        self.draft = self.target[:, :DRAFTS]
        self.tokens = self.draft.argmax(-1)
        self.p = self.target.softmax(-1)

    def benchmark_greedy(self):
        self.out = self.kernel.sample(self.x, temperature=0.0)

    def verify_greedy(self):
        return self.x.argmax(-1)

    def benchmark_sample(self):
        self.out = self.kernel.sample(self.x, **FILTERS, seed=1)

    def verify_sample(self):
        kept = eager_filter(self.x, **FILTERS)
        kept.softmax(-1).multinomial(1)
        return self.out.where(kept.gather(-1, self.out[:, None])[:, 0].isfinite(), -1)

    def benchmark_sample_unfiltered(self):
        self.out = self.kernel.sample(self.x, temperature=0.8, seed=1)

    def verify_sample_unfiltered(self):
        p = (self.x / 0.8).softmax(-1)
        p.multinomial(1)
        return self.out.where(p.gather(-1, self.out[:, None])[:, 0] > 0, -1)

    def benchmark_filter_logits(self):
        self.out = self.kernel.filter_logits(self.x, **FILTERS)

    def verify_filter_logits(self):
        return eager_filter(self.x, **FILTERS)

    def benchmark_verify(self):
        self.out, _ = self.kernel.verify(self.target, self.draft, self.tokens, 0.8, seed=1)

    def verify_verify(self):
        eager = self.kernel.reference.eager_verify
        return eager(self.target, self.draft, self.tokens, 0.8)[0]

    def benchmark_accept(self):
        n, _ = self.kernel.accept(self.p, self.p[:, :DRAFTS], self.tokens)
        self.out = n

    def verify_accept(self):
        rounds = zip(self.p, self.p[:, :DRAFTS], self.tokens)
        return torch.tensor([eager_accept(*each)[0] for each in rounds], device=self.device)

    def benchmark_verify_greedy(self):
        self.out, _ = self.kernel.verify_greedy(self.p, self.tokens)

    def verify_verify_greedy(self):
        equal = self.p.argmax(-1)[:, :DRAFTS] == self.tokens
        return equal.long().cumprod(-1).sum(-1)


class Batch(OneSequence):
    """A server's step."""

    batch, vocab = 16, 32000
