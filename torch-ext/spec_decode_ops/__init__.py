# SPDX-License-Identifier: Apache-2.0
"""The last step of every decoding loop: logits to tokens, exactly and reproducibly."""

from . import _registrations as _registrations
from . import reference
from ._targets import _cpu_target as _cpu_target
from .decoder import SpeculativeDecoder
from .logprobs import Logprobs
from .prompt_lookup import PromptLookup
from .sample import filter_logits, sample
from .sampler import Sampler
from .spec_generate import spec_generate
from .stats import DecodeStats
from .verify import _accept_with_uniforms as _accept_with_uniforms
from .verify import _verify_with_words as _verify_with_words
from .verify import accept, verify, verify_greedy

__all__ = [
    "DecodeStats",
    "Logprobs",
    "PromptLookup",
    "Sampler",
    "SpeculativeDecoder",
    "accept",
    "filter_logits",
    "reference",
    "sample",
    "spec_generate",
    "verify",
    "verify_greedy",
]
