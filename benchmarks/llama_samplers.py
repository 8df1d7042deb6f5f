# SPDX-License-Identifier: Apache-2.0
"""`sample` beside llama.cpp's own samplers, through llama-cpp-python, as a Markdown table.

    pip install llama-cpp-python        (compiles llama.cpp)
    python benchmarks/llama_samplers.py

llama.cpp's decoding loop fills an array of {id, logit, p} from the logits and hands it to a chain
of samplers; the same is timed here, the filling by one copy and one strided write. Its chain draws
by a cumulative sum, so tokens differ from ours while the law is the same, up to rounding.
"""

import argparse
import ctypes

import llama_cpp
import numpy as np
import torch
from cases import logit_rows
from spec_decode_ops import sample
from table import medians, processor

TOKEN = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Chain:
    """llama.cpp's samplers in their own default order: the temperature after the filters, which
    makes top_p and min_p cut at temperature 1."""

    def __init__(self, vocab, temperature, top_k=0, top_p=1.0, min_p=0.0):
        self.samplers = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        if temperature <= 0:
            self._add(llama_cpp.llama_sampler_init_greedy())
        else:
            if top_k:
                self._add(llama_cpp.llama_sampler_init_top_k(top_k))
            if top_p < 1:
                self._add(llama_cpp.llama_sampler_init_top_p(top_p, 1))
            if min_p > 0:
                self._add(llama_cpp.llama_sampler_init_min_p(min_p, 1))
            self._add(llama_cpp.llama_sampler_init_temp(temperature))
            self._add(llama_cpp.llama_sampler_init_dist(1))
        self.blank = np.zeros(vocab, TOKEN)
        self.blank["id"] = np.arange(vocab)
        self.tokens = self.blank.copy()

    def _add(self, sampler):
        llama_cpp.llama_sampler_chain_add(self.samplers, sampler)

    def __call__(self, logits):
        """The token drawn from `logits`, float32 [V]."""
        np.copyto(self.tokens, self.blank)
        self.tokens["logit"] = logits
        data = self.tokens.ctypes.data_as(llama_cpp.llama_token_data_p)
        array = llama_cpp.llama_token_data_array(data, len(self.tokens), -1, False)
        llama_cpp.llama_sampler_apply(self.samplers, ctypes.byref(array))
        return int(self.tokens["id"][array.selected])


CASES = {
    "T .8, k 40, p .95, min_p .05 (llama.cpp's defaults)": {
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
    },
    "T .8, p .95": {"temperature": 0.8, "top_p": 0.95},
    "T .8": {"temperature": 0.8},
    "greedy": {"temperature": 0.0},
}


def compare(vocab, options, runs):
    """Median microseconds of a draw: ours, llama.cpp's."""
    row = logit_rows(1, vocab)
    values, chain = row[0].numpy(), Chain(vocab, **options)
    return medians(lambda: sample(row, seed=3, **options), lambda: chain(values), runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--vocab", type=int, nargs="+", default=[32000, 128256])
    parser.add_argument("--runs", type=int, default=31)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{processor()}, llama-cpp-python {llama_cpp.__version__}, one thread, randn * 3\n")
    print("| sample | V | ours, us | llama.cpp, us | ratio |")
    print("|---|---|---|---|---|")
    for vocab in args.vocab:
        for what, options in CASES.items():
            ours, theirs = compare(vocab, options, args.runs)
            print(f"| {what} | {vocab} | {ours:.1f} | {theirs:.0f} | {theirs / ours:.1f}x |")


if __name__ == "__main__":
    main()
