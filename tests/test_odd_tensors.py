# SPDX-License-Identifier: Apache-2.0
"""Tensors that are not plain memory: what torch can make of one is read right, what is none is
refused by name."""

import pytest
import torch

B, K, V = 3, 2, 40


def logits():
    return torch.linspace(-2, 2, B * V).view(B, V)


READABLE = {
    "negated lazily": lambda x: torch._neg_view(-x),
    "of a graph": lambda x: x.clone().requires_grad_(),
    "of inference mode": lambda x: torch.inference_mode()(torch.clone)(x),
    "a parameter": torch.nn.Parameter,
    "a subclass": lambda x: x.as_subclass(type("Named", (torch.Tensor,), {})),
    "a reader of shared memory": lambda x: x.clone().share_memory_(),
}


@pytest.mark.parametrize("kind", READABLE)
def test_what_torch_can_read_is_read(sdo, kind):
    odd = READABLE[kind](logits())
    assert sdo.sample(odd, top_p=0.9, seed=3).tolist() == [*sdo.sample(logits(), top_p=0.9, seed=3)]
    target = READABLE[kind](logits().expand(B, B, V).contiguous())
    tokens = torch.zeros(B, K, dtype=torch.int64)
    plain = sdo.verify(logits().expand(B, B, V), None, tokens, seed=3)
    for a, b in zip(sdo.verify(target, None, tokens, seed=3), plain):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("name", ["temperature", "top_p", "prev_tokens", "offset"])
def test_a_sparse_parameter_is_refused_by_name(sdo, name):
    right = {
        "temperature": torch.ones(B),
        "top_p": torch.ones(B, dtype=torch.float64),
        "prev_tokens": torch.ones(B, 4, dtype=torch.int64),
        "offset": torch.ones(B, dtype=torch.int64),
    }[name]
    before = torch.get_rng_state()
    for seed in (None, 1):
        with pytest.raises(RuntimeError, match=f"sample: {name} is .* sparse .*, wanted a dense"):
            sdo.sample(logits(), **{name: right.to_sparse()}, seed=seed)
    assert torch.equal(before, torch.get_rng_state())


def test_sparse_rows_are_refused_by_name(sdo):
    target, tokens = logits()[None], torch.zeros(1, K, dtype=torch.int64)
    for odd in (logits().to_sparse(), logits().to_sparse_csr()):
        with pytest.raises(RuntimeError, match="sample: logits is .* sparse .*, wanted a dense"):
            sdo.sample(odd, seed=1)
    with pytest.raises(RuntimeError, match="verify: draft_logits is .* sparse .*, wanted a dense"):
        sdo.verify(target, target[:, :K].to_sparse(), tokens, seed=1)


def test_rows_in_a_layout_of_another_library_are_refused(sdo):
    with pytest.raises(RuntimeError):
        sdo.sample(logits().to_mkldnn(), seed=1)


def test_a_tensor_without_elements_may_have_any_strides(sdo):
    for strides in ((0, 0), (1, 5), (V, 1)):
        empty = torch.empty(0).as_strided((0, V), strides)
        assert empty.is_contiguous()
        assert sdo.sample(empty, seed=1).shape == (0,)
        assert sdo.filter_logits(empty, top_k=3).shape == (0, V)
    target = torch.empty(0).as_strided((0, K + 1, V), (0, 0, 0))
    accept_len, out = sdo.verify(target, None, torch.empty(0, K, dtype=torch.int64), seed=1)
    assert (accept_len.shape, out.shape) == ((0,), (0, K + 1))
    with pytest.raises(RuntimeError, match="stride 2 in the last dimension, wanted stride 1"):
        sdo.sample(torch.zeros(B, 2 * V)[:, ::2], seed=1)
