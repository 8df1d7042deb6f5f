# SPDX-License-Identifier: Apache-2.0
"""Plain decoding, one token a forward pass: what speculation must equal and beat."""


def plain_decode(logits, choose, prompt_ids, max_new, eos_token_id, on_token=lambda: None):
    """The list of new tokens. `logits(text)` gives [1, V], the row after the text, and
    `choose(row, position)` the token that comes at that position of the text."""
    text = list(prompt_ids)
    for position in range(len(text), len(text) + max_new):
        text.append(choose(logits(text)[0], position))
        on_token()
        if text[-1] == eos_token_id:
            break
    return text[len(prompt_ids) :]
