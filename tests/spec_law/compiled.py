# SPDX-License-Identifier: Apache-2.0
"""`accept` of a package as a verifier with explicit uniforms: torch at the edge."""

from .boxes import Boxes, integers


def accept_of(package, grid=12, **arguments):
    """For Setup; the arguments are given to `accept`. Rows go in as whole numbers, or with
    normalized=True as they are; the law is then exact where float32 holds them."""
    import torch

    def row(values):
        return list(map(float, values)) if arguments.get("normalized") else integers(values)

    def call(p_rows, q_rows, tokens, uniforms):
        n, vocab = len(uniforms), len(p_rows[0])
        target = torch.tensor([row(p) for p in p_rows], dtype=torch.float32)
        draft = None
        if tokens and q_rows[0] is not None:
            empty = [0] * vocab
            rows = [empty if q is None else row(q) for q in q_rows]
            draft = torch.tensor(rows, dtype=torch.float32).expand(n, -1, -1)
        accepted, token = package.accept(
            target.expand(n, -1, -1),
            draft,
            torch.tensor(tokens, dtype=torch.int64).expand(n, -1),
            uniforms=torch.tensor(uniforms, dtype=torch.float64),
            **arguments,
        )
        return list(zip(accepted.tolist(), token.tolist()))

    return Boxes(call, grid)
