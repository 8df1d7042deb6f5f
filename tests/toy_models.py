# SPDX-License-Identifier: Apache-2.0
"""Models of a dozen tokens, as callbacks of SpeculativeDecoder, and drafts good and bad."""

import torch

VOCAB = 12
PROMPT = [3, 1, 2]


class ToyModel:
    """Logits that depend on the last two tokens and on the position, mod 7."""

    def __init__(self, seed, vocab=VOCAB, scale=2.0):
        g = torch.Generator().manual_seed(seed)
        self.logits = scale * torch.randn(7, vocab, vocab, vocab, generator=g)
        self.probabilities = self.logits.softmax(-1)

    def row(self, text):
        """The logits of the token that follows the text."""
        return self.logits[self.state(text)]

    def rows(self, prefix, proposed):
        """A target_step that returns logits."""
        return self.logits[self.states(prefix, proposed)]

    def probs(self, prefix, proposed):
        """A target_step that returns probabilities."""
        return self.probabilities[self.states(prefix, proposed)]

    @staticmethod
    def state(text):
        position, text = len(text), [0, 0, *text]
        return position % 7, int(text[-2]), int(text[-1])

    def states(self, prefix, proposed):
        text = [*prefix, *proposed]
        states = [self.state(text[:end]) for end in range(len(prefix), len(text) + 1)]
        return tuple(torch.tensor(states).T)


TARGET, OTHER = ToyModel(1), ToyModel(2)


def proposing(next_token, size=lambda prefix, k: k):
    """A deterministic draft_step out of a function from text to token."""

    def draft_step(prefix, k):
        text = [int(token) for token in prefix]
        for _ in range(size(prefix, k)):
            text.append(next_token(text))
        return text[len(prefix) :], None

    return draft_step


def ragged(prefix, k):
    return len(prefix) % (k + 1)


DRAFTS = {
    "right": proposing(lambda text: int(TARGET.row(text).argmax())),
    "other": proposing(lambda text: int((TARGET.row(text) + OTHER.row(text)).argmax())),
    "wrong": proposing(lambda text: int(TARGET.row(text).argmin())),
    "constant": proposing(lambda text: 5),
    "ragged": proposing(lambda text: int(TARGET.row(text).argmax()), ragged),
    "none": lambda prefix, k: ([], None),
    "padded": lambda prefix, k: ([int(TARGET.row(prefix).argmax()), -1, 3][:k], None),
    "beyond": lambda prefix, k: ([int(TARGET.row(prefix).argmax()), VOCAB][:k], None),
}


def soft_draft(model, seed):
    """A draft_step that samples from a model, and returns the logits it sampled from."""
    g = torch.Generator().manual_seed(seed)

    def draft_step(prefix, k):
        text = list(prefix)
        for _ in range(k):
            p = model.probabilities[model.state(text)]
            text.append(int(torch.multinomial(p, 1, generator=g)))
        tokens = text[len(prefix) :]
        return tokens, model.rows(prefix, tokens[:-1])

    return draft_step
