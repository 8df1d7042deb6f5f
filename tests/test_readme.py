# SPDX-License-Identifier: Apache-2.0
"""The pages are always true: their code runs, and they name commands and functions there are."""

import functools
import re
from pathlib import Path

import kernels
import pytest
import torch
from tiny_llamas import padded_prompts, resembling, tiny_llama

ROOT = Path(__file__).resolve().parent.parent

if not (ROOT / "README.md").exists():
    pytest.skip("the pages are not in this copy of the tests", allow_module_level=True)

PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "CARD.md", "CONTRIBUTING.md")}
README = PAGES["README.md"]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", PAGES[page], re.S | re.M)


def models():
    """What a reader has: two models that resemble each other, and a prompt."""
    model = tiny_llama()
    model.generation_config.max_new_tokens = 4
    ids, mask = padded_prompts([9])
    inputs = {"input_ids": ids, "attention_mask": mask}
    return {"model": model, "draft": resembling(model), "inputs": inputs, "input_ids": ids}


def run(page, names, monkeypatch):
    # Under a CUDA torch the default would be a CUDA variant; build/ holds the CPU one.
    get_cpu_kernel = functools.partial(kernels.get_kernel, backend="cpu")
    monkeypatch.setattr(kernels, "get_kernel", get_cpu_kernel)
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    return names


def test_every_block_of_the_readme_runs(sdo, monkeypatch, one_thread):
    assert len(blocks("README.md")) == README.count("```python") >= 6
    names = run("README.md", models(), monkeypatch)
    assert names["sdo"].__all__ == sdo.__all__
    assert len(names["ids"]) == 3 + 16


def test_every_block_of_the_card_runs(sdo, monkeypatch, one_thread):
    k, vocab = 3, 40
    target = torch.randn(k + 1, vocab)
    names = {
        **models(),
        "step": 0,
        "offset": 5,
        "target_logits": target[None],
        "draft_logits": target[None, :k],
        "draft_tokens": target[None, :k].argmax(-1),
        "target_probs": target.softmax(-1),
        "draft_probs": target[:k].softmax(-1),
        "generator": torch.Generator().manual_seed(1),
        "prompt_ids": [1, 2, 3],
        "draft_step": lambda prefix, k: (prefix[-k:], None),
        "target_step": lambda prefix, proposed: torch.ones(len(proposed) + 1, vocab),
    }
    names = run("CARD.md", names, monkeypatch)
    assert names["n_accepted"] == k
    assert len(names["out"]) == 3 + 128


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_its_make_targets_exist(page):
    rules = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    named = re.findall(r"(?:^|`)make ([\w-]+)", PAGES[page], re.M)
    assert set(named) <= set(rules)


def test_the_api_table_names_what_is_public(sdo):
    named = set(re.findall(r"^\| `(\w+)", README, re.M))
    assert named == set(sdo.__all__)


@pytest.mark.parametrize("page", PAGES)
def test_its_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^):]+)\)", PAGES[page]):
        assert (ROOT / link).exists(), link
