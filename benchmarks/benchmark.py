# SPDX-License-Identifier: Apache-2.0
"""For `kernels benchmark ./`: each op, with its result checked against the reference."""

import torch
from kernels.benchmark import Benchmark

DRAFTS = 4


class OneSequence(Benchmark):
    """Rows of 128256 tokens, as a single decoding loop has them."""

    seed = 0

    def setup(self):
        rows = torch.randn(DRAFTS + 1, 128256, device=self.device) * 3
        self.x = rows[:1]
        self.target = rows[None]
        self.draft = rows[None, :DRAFTS]
        self.tokens = self.draft.argmax(-1)
        self.p = rows.softmax(-1)

    def benchmark_sample(self):
        self.out = self.kernel.sample(self.x, temperature=0.0)

    def verify_sample(self):
        return self.kernel.reference.sample(self.x, None, temperature=0.0)

    def benchmark_filter_logits(self):
        self.out = self.kernel.filter_logits(self.x, temperature=0.8, top_k=50, top_p=0.95)

    def verify_filter_logits(self):
        return self.kernel.reference.filter_logits(self.x, temperature=0.8, top_k=50, top_p=0.95)

    def benchmark_verify(self):
        self.out = self.kernel.verify(self.target, self.draft, self.tokens, 0.8, seed=1)[0]

    def verify_verify(self):
        # Draft and target are one model, so that every draft token is accepted.
        return torch.full((1,), DRAFTS, device=self.device)

    def benchmark_accept(self):
        n, _ = self.kernel.accept(self.p, self.p[:DRAFTS], self.tokens[0])
        self.out = torch.tensor(n)

    def verify_accept(self):
        return torch.tensor(DRAFTS)

    def benchmark_verify_greedy(self):
        self.out = torch.tensor(self.kernel.verify_greedy(self.p, self.tokens[0]))

    def verify_verify_greedy(self):
        return torch.tensor(self.kernel.reference.verify_greedy(self.p, self.tokens[0]))
