# SPDX-License-Identifier: Apache-2.0
"""The last step of every decoding loop: logits to tokens, exactly and reproducibly."""

from . import reference
from .decoder import SpeculativeDecoder
from .sample import filter_logits, sample
from .verify import _accept_with_uniforms, _verify_with_words, accept, verify, verify_greedy

__all__ = [
    "SpeculativeDecoder",
    "accept",
    "filter_logits",
    "reference",
    "sample",
    "verify",
    "verify_greedy",
]
