# SPDX-License-Identifier: Apache-2.0
"""Models small enough to enumerate, and drafts from them.

A model is a function from a prefix, a tuple of tokens, to a row. A draft is a function
draft(prefix, noise) -> [(token, the row it was drawn from), ...], noise(i) being the uniform of
its i-th token.
"""

from fractions import Fraction

from .rules import draw


class Table:
    """Rows by state. The state is 0 at the start, and `step` (state, token) after each token; the
    default depends on all of the prefix."""

    def __init__(self, rows, step=None):
        self.rows = [tuple(map(Fraction, row)) for row in rows]
        self.step = step or (lambda state, token: (5 * state + token + 1) % len(self.rows))

    def state(self, prefix):
        state = 0
        for token in prefix:
            state = self.step(state, token)
        return state

    def __call__(self, prefix):
        return self.rows[self.state(prefix)]

    def __repr__(self):
        return " | ".join(" ".join(map(str, row)) for row in self.rows)


def table(weights, step=None):
    """A Table of rows in proportion to the weights."""
    return Table([[Fraction(w, sum(row)) for w in row] for row in weights], step)


def constant(*row):
    return Table([row], lambda state, token: 0)


# ---- Drafts ----


def sampled(model, k):
    """k tokens drawn from the model; k may be a function of the prefix with the tokens so far, and
    tell whether to go on."""

    def draft(prefix, noise):
        tokens = []
        while len(tokens) < k if isinstance(k, int) else k(prefix, tokens):
            q = model((*prefix, *(t for t, _ in tokens)))
            tokens.append((draw(q, noise(len(tokens))), q))
        return tokens

    return draft


def sure(choose, k, vocab=None):
    """k tokens that choose(prefix) picks; with a vocab their one-hot rows are told."""

    def draft(prefix, noise):
        tokens = []
        for _ in range(k):
            t = choose((*prefix, *(t for t, _ in tokens)))
            q = vocab and tuple(Fraction(s == t) for s in range(vocab))
            tokens.append((t, q))
        return tokens

    return draft


def padded(draft, k):
    """The draft with tokens -1 up to k, as batches of drafts of different lengths have them."""

    def of_length_k(prefix, noise):
        tokens = draft(prefix, noise)
        return [*tokens, *[(-1, None)] * (k - len(tokens))]

    return of_length_k


def told(draft, tell):
    """The same tokens, with tell(token, row) told to the verifier as their law."""
    return lambda prefix, noise: [(t, tell(t, q)) for t, q in draft(prefix, noise)]
