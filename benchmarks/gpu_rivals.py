# SPDX-License-Identifier: Apache-2.0
"""What others do for the same: the eager chain of transformers, torch.compile of it, FlashInfer."""

import importlib.util
import warnings

import torch

COMPILED_ROWS = (1, 8)  # each compilation takes the better part of a minute


def missing():
    """Which rivals cannot be timed here, and why."""
    return [
        f"{rival}: no package {package}"
        for rival, package in (("eager chain", "transformers"), ("FlashInfer", "flashinfer"))
        if importlib.util.find_spec(package) is None
    ]


def rivals(sdo, case, inputs):
    """name -> call, of those that are here and that have such an op."""
    found = {}
    eager = eager_chain(sdo, case, inputs)
    if eager:
        found["eager"] = eager
        if case.rows in COMPILED_ROWS and case.op in ("sample, full", "sample, top-p only"):
            found["compiled"] = torch.compile(eager, dynamic=False)
    if importlib.util.find_spec("flashinfer"):
        found.update(flashinfer(case, inputs))
    return found


def eager_chain(sdo, case, inputs):
    if case.op == "verify, k=4":
        verify, given = sdo.reference.eager_verify, (inputs.x, inputs.draft, inputs.drafted)
        return lambda: verify(*given, inputs.filters["temperature"])
    if importlib.util.find_spec("transformers") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cases import chain, eager_draw

    processors, x, ids = chain(**inputs.filters), inputs.x, inputs.history
    x = x.reshape(-1, case.vocab)
    ids = ids.repeat_interleave(len(x) // len(ids), 0)
    if case.op.startswith("filter_logits"):
        return lambda: processors(ids, x.float())
    return lambda: eager_draw(processors, ids, x.float())


def flashinfer(case, inputs):
    """Without min_p and penalty, which it does not apply together with the others."""
    import flashinfer.sampling as theirs

    temperature = inputs.filters["temperature"]

    def scaled():
        return inputs.x.float() / temperature

    if case.op == "sample, unfiltered":
        return {"FlashInfer": lambda: theirs.sampling_from_logits(scaled())}
    if case.op == "sample, top-p only":
        p = inputs.filters["top_p"]
        return {"FlashInfer": lambda: theirs.top_p_sampling_from_probs(scaled().softmax(-1), p)}
    if case.op in ("sample, top-k", "sample, full"):
        k, p = inputs.filters["top_k"], inputs.filters.get("top_p", 1.0)
        return {"FlashInfer": lambda: theirs.top_k_top_p_sampling_from_logits(scaled(), k, p)}
    if case.op == "verify, k=4":
        ids = inputs.drafted.int()

        def verify():
            draft = (inputs.draft.float() / temperature).softmax(-1)
            return theirs.chain_speculative_sampling(draft, ids, scaled().softmax(-1))

        return {"FlashInfer": verify}
    return {}
