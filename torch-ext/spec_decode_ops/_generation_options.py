# SPDX-License-Identifier: Apache-2.0
"""What transformers' `generate` was asked for, as `sample` and `verify` take it; and errors that
name what they cannot do."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Union

import torch

from ._stopping import End

# In the order in which `sample` applies them: the processor's name, its attribute, the filter's.
FILTERS = (
    ("RepetitionPenaltyLogitsProcessor", "penalty", "repetition_penalty"),
    ("TemperatureLogitsWarper", "temperature", "temperature"),
    ("TopKLogitsWarper", "top_k", "top_k"),
    ("TopPLogitsWarper", "top_p", "top_p"),
    ("MinPLogitsWarper", "min_p", "min_p"),
)
# Options of a generation config that change the text or the result, and what they are when off.
OFF = {
    "num_beams": (None, 1),
    "prefill_chunk_size": (None,),
    "penalty_alpha": (None, 0, 0.0),
    "dola_layers": (None,),
    "use_mtp": (None, False),
    "assistant_early_exit": (None,),
    "assistant_ensemble_weight": (None,),
    "output_scores": (None, False),
    "output_logits": (None, False),
    "output_attentions": (None, False),
    "output_hidden_states": (None, False),
}
# Arguments of a model's forward pass that the loop makes itself, or that change nothing.
KNOWN_INPUTS = ("attention_mask", "position_ids", "use_cache", "logits_to_keep")


class Filters(NamedTuple):
    """The arguments of `sample`, and how many of each row's first tokens the penalty leaves out."""

    arguments: dict
    ignored: Union[int, torch.Tensor]


def filters(where: str, processors: Any) -> Filters:
    """A chain of transformers' logits processors as the filters of `sample`."""
    names, arguments, ignored = [name for name, _, _ in FILTERS], {}, 0
    last = -1
    for processor in processors:
        name = type(processor).__name__
        if name not in names:
            raise ValueError(f"{where}: the logits processor {name} is not supported")
        place = names.index(name)
        if place <= last:
            raise ValueError(
                f"{where}: the logits processor {name} comes after {names[last]}, "
                f"wanted each at most once, in the order {', '.join(names)}"
            )
        last = place
        _, attribute, argument = FILTERS[place]
        arguments[argument] = getattr(processor, attribute)
        _check_warper(where, name, processor)
        if getattr(processor, "prompt_ignore_length", None) is not None:
            ignored = processor.prompt_ignore_length
    return Filters(arguments, ignored)


def _check_warper(where: str, name: str, processor: Any) -> None:
    fewest = getattr(processor, "min_tokens_to_keep", 1)
    if fewest > 1:
        raise ValueError(f"{where}: min_tokens_to_keep is {fewest} in {name}, wanted 1")
    filler = getattr(processor, "filter_value", -torch.inf)
    if filler != -torch.inf:
        raise ValueError(f"{where}: filter_value is {filler} in {name}, wanted -inf")


def check(where: str, model: Any, config: Any, model_kwargs: dict, cache_name: str) -> None:
    """Raises on the first option that is on and not supported, by its name."""
    if model.config.is_encoder_decoder:
        raise ValueError(f"{where}: the model is an encoder-decoder, which is not supported")
    for option, off in OFF.items():
        value = getattr(config, option, None)
        if value not in off:
            raise ValueError(f"{where}: {option} is {value!r}, which is not supported")
    if config.cache_implementation == "quantized":
        raise ValueError(f'{where}: cache_implementation is "quantized", which is not supported')
    for name, value in model_kwargs.items():
        if name not in (*KNOWN_INPUTS, cache_name) and value is not None:
            raise ValueError(f"{where}: the model input {name} is not supported")


def padding(where: str, input_ids: Any, mask: Any, position_ids: Any, held: int) -> list[int]:
    """How many tokens of padding each row begins with."""
    rows, width = input_ids.shape
    if held and (rows > 1 or held >= width or mask is not None):
        raise ValueError(
            f"{where}: the cache holds {held} tokens, wanted an empty one, or one row without "
            "padding whose input_ids begin with them"
        )
    if mask is None:
        mask = torch.ones_like(input_ids)
    seen = mask != 0
    padding = width - seen.sum(1)
    if mask.shape != input_ids.shape or not torch.equal(seen.long().cumsum(1) > 0, seen):
        raise ValueError(f"{where}: attention_mask is not supported, wanted padding on the left")
    if (padding == width).any():
        raise ValueError(f"{where}: attention_mask leaves nothing of a row")
    places = (seen.long().cumsum(1) - 1).clamp(min=0)
    if position_ids is not None and not (position_ids[:, -width:] == places).all():
        raise ValueError(f"{where}: position_ids are not supported, but for 0, 1, 2, ... each row")
    return padding.tolist()


class Ends:
    """Where the rows of a batch end: transformers' stopping criteria, applied to one row and one
    new token at a time, so that each row is cut at the token that ends it."""

    def __init__(self, criteria: Any):
        self.criteria = criteria
        self.eos, self.others = set(), []
        for each in criteria:
            name = type(each).__name__
            if name == "EosTokenCriteria":
                self.eos.update(each.eos_token_id.flatten().tolist())
            elif name != "MaxLengthCriteria":
                self.others.append(each)

    def first_end(self, tokens: list, ids: Callable[[], torch.Tensor]) -> Optional[End]:
        """The first end among a row's new tokens; `ids` gives the row with them, [1, length]."""
        row = ids() if self.others else None
        for i, token in enumerate(tokens):
            if token in self.eos:
                return End(i + 1, "eos")
            if row is not None:
                text = row[:, : row.shape[1] - len(tokens) + i + 1]
                if any(bool(torch.as_tensor(each(text, None)).all()) for each in self.others):
                    return End(i + 1, "stop")
        return None
