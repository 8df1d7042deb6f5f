# SPDX-License-Identifier: Apache-2.0
"""Two GGUF models through llama-cpp-python, which has to be installed (it compiles llama.cpp).

    python examples/gguf_pair.py --target large.gguf --draft small.gguf --prompt "Once upon a time"

Both models must share their vocabulary. The rollback hooks shorten the caches: llama.cpp forgets
what lies beyond `n_tokens` when it reads on from there.
"""

import argparse
import sys

import torch
from spec_decode_ops import SpeculativeDecoder, sample


class Cached:
    """A llama.cpp model that reads each token of a growing text once."""

    def __init__(self, path, context):
        from llama_cpp import Llama

        self.llama = Llama(model_path=path, n_ctx=context, logits_all=True, verbose=False)

    def logits(self, text, rows):
        """[rows, V]: the logits after each of the text's last `rows` tokens."""
        self.rollback(len(text) - rows)
        self.llama.eval(text[self.llama.n_tokens :])
        return torch.tensor(self.llama.scores[len(text) - rows : len(text)])

    def rollback(self, length):
        self.llama.n_tokens = min(self.llama.n_tokens, length)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--max-new", type=int, default=64)
    parser.add_argument("--k", type=int, default=6)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args(argv)
    try:
        target, draft = (Cached(path, args.context) for path in (args.target, args.draft))
    except ImportError:
        sys.exit("gguf_pair.py needs llama-cpp-python: pip install llama-cpp-python")

    def draft_step(prefix, k):
        text = list(prefix)
        for _ in range(k):
            row = draft.logits(text, 1)[0]
            # The noise that the target will draw this position with: accepted most often.
            text.append(int(sample(row, args.temperature, seed=args.seed, offset=len(text))))
        return text[len(prefix) :], None

    def target_step(prefix, proposed):
        return target.logits([*prefix, *proposed], len(proposed) + 1)

    decoder = SpeculativeDecoder(
        draft_step,
        target_step,
        k=args.k,
        greedy=False,
        inputs="logits",
        method="coupled",
        temperature=args.temperature,
        seed=args.seed,
        eos_token_id=target.llama.token_eos(),
        adaptive_k=True,
        draft_rollback=draft.rollback,
        target_rollback=target.rollback,
    )
    prompt = target.llama.tokenize(args.prompt.encode())
    for tokens, _ in decoder.stream(prompt, args.max_new):
        print(target.llama.detokenize(tokens).decode(errors="replace"), end="", flush=True)
    print(f"\n{decoder.stats}")


if __name__ == "__main__":
    main()
