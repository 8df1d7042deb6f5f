# SPDX-License-Identifier: Apache-2.0
"""Two transformers models through `generate`: SmolLM2-135M, and its own first layers as the draft.

The layers were never trained to speak, so such a draft is poor; it shows how a pair is joined. Both
ways of decoding must give the same tokens, by the greedy rule and by sampling with one seed.
"""

import argparse
import time

import smollm2
import torch
from spec_decode_ops import DecodeStats, spec_generate

PROMPTS = ["Name three fruits.", "What is the capital of France? Answer in one sentence."]


def timed_generate(model, inputs, **options):
    start = time.perf_counter()
    ids = model.generate(**inputs, custom_generate=spec_generate, **options)
    return ids, time.perf_counter() - start


def compare(model, draft, inputs, **options):
    """The ids by speculation; prints how it went beside plain decoding with the same noise."""
    stats = DecodeStats()
    plain, plain_seconds = timed_generate(model, inputs, k=0, **options)
    ids, seconds = timed_generate(model, inputs, assistant_model=draft, stats=stats, **options)
    same = ids.shape == plain.shape and torch.equal(ids, plain)
    print(
        f"plain {plain_seconds:.1f} s, with the draft {seconds:.1f} s; {stats.accepted} of "
        f"{stats.drafted} draft tokens accepted, {stats.emitted} tokens in {stats.target_calls} "
        f"target calls; {'the same tokens' if same else 'NOT the same tokens'}"
    )
    return ids


def main(argv=None, load=smollm2.load):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--prompt", action="append", help="may be given more than once")
    parser.add_argument("--max-new", type=int, default=24)
    parser.add_argument("--layers", type=int, default=15, help="of the draft")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args(argv)
    model, tokenizer = load()
    tokenizer.padding_side = "left"
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
        )
        for prompt in args.prompt or PROMPTS
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    draft = smollm2.first_layers(model, args.layers)
    results = []
    for name, options in (
        ("Greedy", {"do_sample": False}),
        ("Sampling", {"do_sample": True, "top_p": 0.9, "seed": args.seed}),
    ):
        print(f"{name}: ", end="")
        ids = compare(model, draft, inputs, max_new_tokens=args.max_new, **options)
        new = ids[:, inputs["input_ids"].shape[1] :]
        for text in tokenizer.batch_decode(new, skip_special_tokens=True):
            print(f"  {text.strip()!r}")
        results.append(ids)
    return results


if __name__ == "__main__":
    main()
