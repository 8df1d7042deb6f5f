# SPDX-License-Identifier: Apache-2.0
"""spec_generate refuses what it cannot do by its name; Sampler in a loop of one's own."""

import subprocess
import sys

import pytest
import torch
from tiny_llamas import PAD, VOCAB, padded_prompts, tiny_llama, transformers

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL = tiny_llama()
IDS, MASK = padded_prompts([5, 3])
LOOKUP = {"prompt_lookup_num_tokens": 3}


def generate(sdo, ids=IDS, **options):
    options = {"max_new_tokens": 6, "pad_token_id": PAD, **LOOKUP, **options}
    options = {name: value for name, value in options.items() if value is not None}
    return MODEL.generate(ids, custom_generate=sdo.spec_generate, **options)


class AnyProcessor(transformers.LogitsProcessor):
    def __call__(self, input_ids, scores):
        return scores


SLIDING = transformers.MistralConfig(
    vocab_size=VOCAB,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    sliding_window=4,
)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_beams": 2}, "num_beams is 2, which is not supported"),
        ({"use_cache": False}, "there is no cache, wanted use_cache=True"),
        ({"return_dict_in_generate": True, "output_scores": True}, "output_scores is True"),
        ({"return_dict_in_generate": True, "output_logits": True}, "output_logits is True"),
        ({"prefill_chunk_size": 2}, "prefill_chunk_size is 2, which is not supported"),
        ({"no_repeat_ngram_size": 2}, "logits processor NoRepeatNGramLogitsProcessor is not"),
        ({"bad_words_ids": [[4]]}, "logits processor NoBadWordsLogitsProcessor is not supported"),
        ({"suppress_tokens": [4]}, "logits processor SuppressTokensLogitsProcessor is not"),
        ({"do_sample": True, "typical_p": 0.5}, "logits processor TypicalLogitsWarper is not"),
        ({"do_sample": True, "renormalize_logits": True}, "LogitNormalization is not supported"),
        ({"logits_processor": [AnyProcessor()]}, "logits processor AnyProcessor is not supported"),
        (
            {"do_sample": True, "logits_processor": [transformers.TopKLogitsWarper(5)], "top_k": 9,
             "temperature": 0.5},
            "TemperatureLogitsWarper comes after TopKLogitsWarper, wanted each at most once",
        ),
        (
            {"do_sample": True, "logits_processor": [transformers.TopPLogitsWarper(0.5, 0.0)]},
            "filter_value is 0.0 in TopPLogitsWarper, wanted -inf",
        ),
        ({"prompt_lookup_num_tokens": None}, "there is no draft, wanted assistant_model or"),
        ({"assistant_model": MODEL}, "assistant_model and prompt_lookup_num_tokens are given"),
        ({"method": "block"}, 'method is \'block\', wanted "token" or "coupled"'),
        ({"k": -1}, "k is -1, wanted 0 or more"),
        ({"seed": torch.tensor([1, 2, 3])}, "seed is torch.int64 of shape [3], wanted an int"),
        ({"attention_mask": torch.tensor([[1, 1, 1, 1, 0]] * 2)}, "attention_mask is not"),
        ({"attention_mask": torch.tensor([[1] * 5, [0] * 5])}, "attention_mask leaves nothing"),
        ({"position_ids": torch.arange(5)[None] + 3}, "position_ids are not supported"),
        ({"streamer": transformers.TextStreamer}, "streamer is given with a batch of 2 rows"),
        ({"inputs_embeds": torch.zeros(2, 5, 32)}, "the model input inputs_embeds is not"),
    ],
)  # fmt: skip
def test_an_option_that_is_not_supported_is_named(sdo, options, text):
    if "streamer" in options:
        options = {"streamer": type("Streamer", (), {"put": lambda self, value: None})()}
    with pytest.raises(ValueError) as raised:
        generate(sdo, **options)
    assert text in str(raised.value)


def test_a_cache_that_holds_more_than_the_text_is_refused(sdo):
    cache = transformers.DynamicCache(config=MODEL.config)
    MODEL(IDS[:1], cache=cache)
    with pytest.raises(ValueError, match="the cache holds 5 tokens, wanted an empty one"):
        generate(sdo, IDS[:1], cache=cache)


def test_a_sliding_window_is_refused_for_a_batch(sdo):
    model = transformers.MistralForCausalLM(SLIDING).eval()
    with pytest.raises(ValueError, match="sliding-window layers and the batch 2 rows, wanted 1"):
        model.generate(IDS, custom_generate=sdo.spec_generate, max_new_tokens=9, **LOOKUP)


def test_a_row_of_nan_is_named_and_never_emitted(sdo):
    model = tiny_llama()
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="row 0 has no finite logit for position 5"):
        model.generate(IDS, custom_generate=sdo.spec_generate, max_new_tokens=3, **LOOKUP)


def test_importing_the_package_does_not_import_transformers(sdo):
    code = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("package", {sdo.__file__!r})
sys.modules["package"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
assert package.spec_generate
assert "transformers" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
