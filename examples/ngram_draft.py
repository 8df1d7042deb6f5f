# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder with a draft that has no model: prompt lookup, on SmolLM2-135M.

python examples/ngram_draft.py --prompt "Repeat this list: red, green, blue, red, green, blue."
"""

import argparse
import time

import smollm2
from spec_decode_ops import PromptLookup, SpeculativeDecoder

PROMPT = "Repeat word by word: The quick brown fox jumps over the lazy dog, and then it sleeps."


def decode(model, tokenizer, prompt_ids, max_new, k):
    """(new token ids, the decoder's stats), the text printed as it comes."""
    decoder = SpeculativeDecoder(
        PromptLookup(),
        smollm2.CachedModel(model).logits,
        k=k,
        inputs="logits",
        adaptive_k=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    new = []
    for tokens, reason in decoder.stream(prompt_ids, max_new):
        new += tokens
        print(tokenizer.decode(tokens), end="", flush=True)
        if reason is not None:
            print(f"\n[{reason}]")
    return new, decoder.stats


def main(argv=None, load=smollm2.load):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--max-new", type=int, default=64)
    parser.add_argument("--k", type=int, default=10, help="draft tokens a round, at most")
    args = parser.parse_args(argv)
    model, tokenizer = load()
    prompt_ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": args.prompt}], add_generation_prompt=True, return_dict=False
    )
    start = time.perf_counter()
    new, stats = decode(model, tokenizer, prompt_ids, args.max_new, args.k)
    seconds = time.perf_counter() - start
    shares = ", ".join(f"{share:.0%}" for share in stats.acceptance_by_position)
    print(
        f"{len(new)} tokens in {seconds:.1f} s, {stats.tokens_per_target_call:.2f} a target call; "
        f"accepted by position: {shares or 'no drafts'}; in verification "
        f"{stats.verify_seconds / seconds:.2%} of the time"
    )
    return new


if __name__ == "__main__":
    main()
