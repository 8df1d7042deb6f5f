# SPDX-License-Identifier: Apache-2.0
"""The last step of every decoding loop: logits to tokens, exactly and reproducibly."""

from . import _registrations as _registrations
from . import reference
from ._targets import cpu_target as _cpu_target
from .decoder import DecodeStats, SpeculativeDecoder
from .sample import filter_logits, sample
from .verify import _accept_with_uniforms as _accept_with_uniforms
from .verify import _verify_with_words as _verify_with_words
from .verify import accept, verify, verify_greedy

__all__ = [
    "DecodeStats",
    "SpeculativeDecoder",
    "accept",
    "filter_logits",
    "reference",
    "sample",
    "verify",
    "verify_greedy",
]
