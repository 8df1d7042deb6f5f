# SPDX-License-Identifier: Apache-2.0
"""spec_law: is the output of a speculative verifier distributed as the target's? See README.md."""

from . import biased, laws, models, rules, samples
from .boxes import Boxes, impossible, integers
from .branches import Blame, blame
from .laws import Setup, distance, mean_accepted, plain_law, round_law, stream_law, total_variation
from .search import Finding, Limits, smallest
from .uniforms import Uniform, paths

__all__ = [
    "Blame",
    "Boxes",
    "Finding",
    "Limits",
    "Setup",
    "Uniform",
    "biased",
    "blame",
    "distance",
    "impossible",
    "integers",
    "laws",
    "mean_accepted",
    "models",
    "paths",
    "plain_law",
    "round_law",
    "rules",
    "samples",
    "smallest",
    "stream_law",
    "total_variation",
]
