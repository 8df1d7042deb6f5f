# SPDX-License-Identifier: Apache-2.0
"""Writes goldens.py: the oracle's answers for fixed inputs, to check any device in seconds.

Inputs are made of integers, so every machine has the same ones. Run it only when the contract of
csrc/common/ changes, and say so in CHANGELOG.md: every user's tokens change with it.

    PYTHONPATH=packaging python tests/make_goldens.py
"""

import hashlib
from functools import lru_cache
from pathlib import Path

import cases
import torch
from oracle import block, oracle

BATCH, K = 4, 3
SEED, OFFSET = 20240607, 3 * 2**33 + 5

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
CHAINS = {
    "off": {},
    "cool": {"temperature": 0.7},
    "top_k": {"top_k": 50},
    "top_p": {"temperature": 1.25, "top_p": 0.9},
    "min_p": {"min_p": 0.1},
    "chain": {"temperature": 0.8, "top_k": 100, "top_p": 0.95, "min_p": 0.01},
    "penalty": {"temperature": 1.1, "repetition_penalty": 1.25, "top_p": 0.7},
    "greedy": {"temperature": 0.0},
}
VOCABS = [999, 50257]
JUDGES = {"token": oracle.verify_rows, "block": block.verify_rows}


@lru_cache(64)
def integers(count, vocab, salt):
    """int64 [count, vocab] in 0..65535 without a pattern that a filter could see."""
    x = torch.arange(count * vocab, dtype=torch.int64).view(count, vocab) + salt * 1000003
    for multiplier in (2654435761, 2246822519, 3266489917):
        x = (x * multiplier) & 0xFFFFFFFF
        x = x ^ (x >> 15)
    return x >> 16


def logits(count, vocab, dtype, salt=0):
    """Sums of three uniform values: -12 .. 12 in steps of 2^-13."""
    total = sum(integers(count, vocab, 3 * salt + part) for part in range(3))
    return ((total - 98304).float() / 8192).to(dtype)


def probabilities(count, vocab, salt=0):
    """Unnormalised, from 2^-40 to 1."""
    return (integers(count, vocab, 100 + salt).float() / 65536).pow(2).pow(2).contiguous()


def tokens(count, vocab, k, salt=0):
    return integers(count, k, 200 + salt) % vocab


def arguments_of(chain, vocab):
    arguments = dict(CHAINS[chain])
    if "repetition_penalty" in arguments:
        arguments["prev_tokens"] = tokens(BATCH, vocab, 64, salt=1)
    return arguments


def round_of(vocab, dtype):
    """target, draft, draft tokens: liked by both models, one sequence cut short."""
    drafted = tokens(BATCH, vocab, K)
    liked = torch.zeros(BATCH, K, vocab).scatter(-1, drafted[..., None], 1)
    target = logits(BATCH * (K + 1), vocab, torch.float32).view(BATCH, K + 1, vocab)
    draft = target[:, :K] + logits(BATCH * K, vocab, torch.float32, 1).view(BATCH, K, vocab) / 16
    target[:, :K] += 16 * liked
    draft += 16.25 * liked
    drafted[2, 2] = -1
    return target.to(dtype), draft.to(dtype), drafted


def sequence_of(vocab):
    target = probabilities(K + 1, vocab)
    draft = target[:K] + probabilities(K, vocab, 1) / 8
    drafted = draft.argmax(-1)
    target[range(K), drafted] *= vocab / 8
    draft[range(K), drafted] *= vocab / 4
    uniforms = (integers(1, K + 1, 300)[0].double() + 0.5) / 65536
    return target, draft, drafted, uniforms


def digest(x):
    return hashlib.sha256(x.contiguous().cpu().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def questions():
    """(name, what to ask of the package on a device, the oracle's answer as a function)."""
    for dtype in DTYPES:
        for vocab in VOCABS:
            for chain in CHAINS:
                yield f"sample {dtype} {vocab} {chain}", ask_sample, (dtype, vocab, chain)
                yield f"filter_logits {dtype} {vocab} {chain}", ask_filter, (dtype, vocab, chain)
    for vocab in VOCABS:
        for chain in ("off", "chain", "penalty", "greedy"):
            for method in ("token", "deterministic", "coupled", "block"):
                name = f"verify {vocab} {chain} {method}"
                yield name, ask_verify, ("bfloat16", vocab, chain, method)
        yield f"accept {vocab}", ask_accept, (vocab, False)
        yield f"accept {vocab} normalized", ask_accept, (vocab, True)
        yield f"accept {vocab} block", ask_accept, (vocab, False, "block")
        yield f"accept {vocab} block normalized", ask_accept, (vocab, True, "block")
        yield f"verify_greedy {vocab}", ask_greedy, (vocab,)


def on(device, arguments):
    return {k: v.to(device) if torch.is_tensor(v) else v for k, v in arguments.items()}


def ask_sample(sdo, device, dtype, vocab, chain):
    x, arguments = logits(BATCH, vocab, DTYPES[dtype]), arguments_of(chain, vocab)
    if sdo is None:
        return cases.oracle_sample(x, SEED, OFFSET, **arguments)
    x = x.to(device)
    return sdo.sample(x, seed=SEED, offset=OFFSET, **on(device, arguments)).tolist()


def ask_filter(sdo, device, dtype, vocab, chain):
    x, arguments = logits(BATCH, vocab, DTYPES[dtype]), arguments_of(chain, vocab)
    if sdo is None:
        return digest(cases.oracle_filter(x, **arguments))
    return digest(sdo.filter_logits(x.to(device), **on(device, arguments)))


def ask_verify(sdo, device, dtype, vocab, chain, method):
    target, draft, drafted = round_of(vocab, DTYPES[dtype])
    draft, arguments = draft if method in JUDGES else None, arguments_of(chain, vocab)
    rule = "token" if method == "deterministic" else method
    if sdo is not None:
        draft = None if draft is None else draft.to(device)
        accept_len, out = sdo.verify(
            target.to(device),
            draft,
            drafted.to(device),
            seed=SEED,
            offset=OFFSET,
            method=rule,
            **on(device, arguments),
        )
        return [row[: n + 1] for n, row in zip(accept_len.tolist(), out.tolist())]
    emitted = []
    for b in range(BATCH):
        place, given = oracle.Place(SEED, OFFSET, b), drafted[b].tolist()
        filter, previous = cases.filter_of(arguments, b), cases.previous_of(arguments, b)
        if rule == "coupled":
            n, token = oracle.verify_coupled(target[b], given, filter, place, previous)
        else:
            q = None if draft is None else draft[b]
            n, token = oracle.verify(
                target[b], q, given, filter, place, previous, judge=JUDGES[rule]
            )
        emitted.append([*given[:n], token])
    return emitted


def ask_accept(sdo, device, vocab, normalized, method="token"):
    target, draft, drafted, uniforms = sequence_of(vocab)
    if normalized:
        target, draft = target / vocab, draft / vocab
    if sdo is None:
        given = target, draft, drafted.tolist(), uniforms.tolist(), normalized
        return oracle.accept(*given, judge=JUDGES[method])
    *given, uniforms = (t.to(device) for t in (target, draft, drafted, uniforms))
    result = sdo.accept(*given, uniforms=uniforms, normalized=normalized, method=method)
    return tuple(int(value) for value in result)


def ask_greedy(sdo, device, vocab):
    target, _, drafted, _ = sequence_of(vocab)
    drafted = target[:K].argmax(-1)
    drafted[2] += 1
    if sdo is None:
        return oracle.verify_greedy(target, drafted.tolist())
    result = sdo.verify_greedy(target.to(device), drafted.to(device))
    return tuple(int(value) for value in result)


def main():
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        '"""Frozen answers, written by make_goldens.py: the same on every device, for ever."""',
        "",
        "# ruff: noqa: E501",
        "# fmt: off",
        "GOLDENS = {",
        *(f'    "{name}": {ask(None, None, *what)!r},' for name, ask, what in questions()),
        "}",
    ]
    text = "\n".join(lines).replace("'", '"') + "\n"
    (Path(__file__).parent / "goldens.py").write_text(text)


if __name__ == "__main__":
    main()
