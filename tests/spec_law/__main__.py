# SPDX-License-Identifier: Apache-2.0
"""python -m spec_law [VERIFIER ...]: searches for the smallest model that shows a bias.

Without arguments it judges the exact rules and all that are known to be biased. `package` is the
compiled `accept`, with --like block its block rule; `module:name` or `file.py:name` any verifier in
Python (README.md).
"""

import argparse
import importlib
import importlib.util
import sys

from . import biased, laws, rules
from .boxes import Boxes
from .search import DRAFTS, Limits, smallest


def known():
    """(name, verifier, name of its noise, the rule it means to be)"""
    for name, rule in rules.EXACT.items():
        yield f"{name} rule", rule, "position" if name == "coupled" else "fresh", name
    for like, verifiers in (("token", biased.TOKEN), ("block", biased.BLOCK)):
        for verify in verifiers:
            yield verify.__name__, verify, "fresh", like
    yield "draws_again_what_differs", biased.draws_again_what_differs, "position", "coupled"
    yield "block rule", rules.block_rule, "again", "block"
    yield "token rule", rules.token_rule, "one", "token"
    yield "coupled rule", rules.coupled_rule, "place", "coupled"


NOISE = {
    "fresh": None,
    "position": laws.noise_of_the_position,
    "again": laws.draft_noise_used_again,
    "one": laws.one_noise_for_a_round,
    "place": laws.noise_of_the_place,
}


def loaded(name, like):
    if name == "package":
        from .compiled import accept_of

        method = "block" if like == "block" else "token"
        return accept_of(importlib.import_module("spec_decode_ops"), method=method)
    module, _, attribute = name.rpartition(":")
    if module.endswith(".py"):
        spec = importlib.util.spec_from_file_location("verifier", module)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module)
    return getattr(module, attribute)


def parsed():
    parser = argparse.ArgumentParser(prog="spec_law", description=__doc__.partition("\n\n")[0])
    parser.add_argument("verifiers", nargs="*", metavar="VERIFIER")
    parser.add_argument("--numbers", action="store_true", help="uniforms have to be floats")
    parser.add_argument("--noise", choices=NOISE, default="fresh", help="which uniforms are one")
    parser.add_argument("--like", choices=rules.EXACT, help="the rule that it means to be")
    parser.add_argument("--drafts", nargs="+", choices=DRAFTS, default=[*DRAFTS])
    for field, default in Limits()._asdict().items():
        parser.add_argument(f"--{field}", type=int, default=default)
    return parser.parse_args()


def main():
    a = parsed()
    jobs = list(known())
    if a.verifiers:
        jobs = [(name, loaded(name, a.like), a.noise, a.like) for name in a.verifiers]
    limits, found = Limits(*(getattr(a, field) for field in Limits._fields)), 0
    for name, verify, noise, like in jobs:
        if a.numbers and not isinstance(verify, Boxes):
            verify = Boxes(lambda p, q, t, many, one=verify: [one(p, q, t, u) for u in many])
        drafts = a.drafts if noise in ("fresh", "position") else ["sampled"]
        finding = smallest(verify, drafts, NOISE[noise], limits, like)
        found += finding is not None
        print(f"{name}, noise {noise}: {finding or 'no bias found'}", flush=True)
    return 1 if found and a.verifiers else 0


if __name__ == "__main__":
    sys.exit(main())
