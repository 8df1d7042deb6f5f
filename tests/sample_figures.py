# SPDX-License-Identifier: Apache-2.0
"""The figures of sampling: draws of one row against the law that transformers' processors give it,
rare tokens, and what another offset changes."""

from typing import NamedTuple

import fit
import torch
from figures import Figure
from test_transformers import CHAINS, compare, processors

CHUNK = 2**16  # draws of one call: one row at stride 0, drawn in as many noise streams
PREVIOUS = 40  # tokens that the penalty sees
PUBLISHED = 1.9e-3  # total variation over filter settings, at as many draws as make stats takes

SETTINGS = {
    "temperature": {"temperature": 0.7},
    "top_k": {"top_k": 50},
    "top_p": {"temperature": 0.7, "top_p": 0.9},
    "min_p": {"min_p": 0.05},
    "penalty": {"repetition_penalty": 1.3},
    "combined": {
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.95,
        "min_p": 0.02,
        "repetition_penalty": 1.1,
    },
}


class Draws(NamedTuple):
    name: str
    law: torch.Tensor  # float64 [V]
    counts: torch.Tensor  # int64 [V]

    @property
    def count(self):
        return int(self.counts.sum())


def one_row(vocab):
    g = torch.Generator().manual_seed(vocab)
    return 2 * torch.randn(vocab, generator=g), torch.randint(vocab, (PREVIOUS,), generator=g)


def counted(sdo, logits, draws, **arguments):
    """How often each token of one row is drawn, over noise streams and offsets."""
    counts = torch.zeros(len(logits), dtype=torch.int64)
    for offset, start in enumerate(range(0, draws, CHUNK)):
        rows = logits.expand(min(CHUNK, draws - start), -1)
        tokens = sdo.sample(rows, seed=17, offset=offset, **arguments)
        counts += torch.bincount(tokens, minlength=len(logits))
    return counts


def draw(sdo, setting, vocab, draws, **wrong):
    """Draws of a setting, or, where `wrong` replaces some of it, of another."""
    logits, previous = one_row(vocab)
    arguments = SETTINGS[setting]
    law = processors(logits[None], previous[None], **arguments)[0].double().softmax(-1)
    told = {**arguments, **wrong}
    counts = counted(sdo, logits, draws, prev_tokens=previous, **told)
    return Draws(f"{setting}, V = {vocab}, {int((law > 0).sum())} kept", law, counts)


def total_variation(draws):
    n = draws.count
    apart = fit.total_variation(draws.counts, draws.law)
    floor = fit.expected_total_variation(draws.law, n)
    limit = fit.total_variation_limit(draws.law, n)
    # Where more tokens are kept than the card can have drawn from, chance alone exceeds its figure.
    published = PUBLISHED if floor < PUBLISHED else None
    name = f"{draws.name}: total variation of draws"
    return Figure(name, n, apart, 0.0, apart, floor, limit, published, "draws_follow")


def chi_square(draws):
    """A degree of freedom has a mean of 1."""
    statistic, freedom = fit.chi_square(draws.counts, draws.law)
    measured, limit = statistic / freedom, fit.chi_square_limit(freedom) / freedom - 1
    floor = 2 / (torch.pi * freedom) ** 0.5
    name = f"{draws.name}: chi-square over {freedom + 1} bins, a degree of freedom"
    apart = abs(measured - 1)
    return Figure(name, draws.count, measured, 1.0, apart, floor, limit, None, "draws_follow")


def masked(draws):
    found = int(draws.counts[draws.law == 0].sum())
    name = f"{draws.name}: draws of what the processors mask"
    return Figure(name, draws.count, found, 0, found, 0, 0.5, 0, "draws_follow")


def kept_sets(sdo, rows, of):
    """How many rows keep another set than transformers' processors, by tokens that its own float32
    sums cannot settle; `compare` fails on any other difference."""
    found = compare(sdo, rows) * len(rows) * len(CHAINS)
    name = f"{of}: kept sets that differ from the processors', by float32 running sums only"
    trials = len(rows) * len(CHAINS)
    return Figure(name, trials, round(found), 0, round(found), 0, 0.02 * trials, 0, "kept_sets")


# ---- Rare tokens ----

RARE = [1e-5, 1e-6, 1e-7]


def row_with_rare_tokens(vocab):
    """Logits, and which tokens have which probability: of a small vocabulary a quarter for each, of
    a large one nearly all have one of them."""
    sizes = [vocab // 4] * 3 if vocab < 1000 else [2000, 18_000, 30_000]
    common = vocab - sum(sizes)
    rare = torch.cat([torch.full((n,), p).double() for n, p in zip(sizes, RARE)])
    weights = torch.cat([(1 - rare.sum()).expand(common) / common, rare])
    order = torch.randperm(vocab, generator=torch.Generator().manual_seed(3))
    groups = (common + torch.arange(len(rare))).split(sizes)
    places = [torch.isin(order, group) for group in groups]
    return weights.log().float()[order], places


def drawn_by_short_noise(logits, draws, bits=16):
    """What a sampler draws whose uniforms have 16 bits."""
    g = torch.Generator().manual_seed(8)
    counts = torch.zeros(len(logits), dtype=torch.int64)
    for start in range(0, draws, CHUNK):
        shape = min(CHUNK, draws - start), len(logits)
        u = (torch.randint(2**bits, shape, generator=g) + 0.5) / 2**bits
        tokens = (logits - (-u.log()).log()).argmax(-1)
        counts += torch.bincount(tokens, minlength=len(logits))
    return counts


def rare_tokens(counts, vocab):
    """A figure for each probability."""
    logits, places = row_with_rare_tokens(vocab)
    law, n = logits.double().softmax(-1), int(counts.sum())
    for p, place in zip(RARE, places):
        chance, hits = float(law[place].sum()), int(counts[place].sum())
        wanted = n * chance
        apart, floor = abs(hits - wanted), (2 / torch.pi * wanted) ** 0.5
        side = 1 if hits > wanted else -1
        limit = n * fit.binomial_limit(chance, n, len(RARE), [side])
        name = f"tokens of probability {p:g} among {n * vocab:.0e} scored, V = {vocab}: drawn"
        yield Figure(name, n, hits, wanted, apart, floor, limit, None, "rare_tokens")


# ---- Which draws are the same ----


def another_offset(sdo, draws, vocab=1000):
    """How often the draws of two offsets agree: as often as independent ones, sum p^2."""
    logits, _ = one_row(vocab)
    rows = logits.expand(draws, -1)
    same = sdo.sample(rows, seed=4, offset=0) == sdo.sample(rows, seed=4, offset=1)
    chance = float(logits.double().softmax(-1).square().sum())
    share = float(same.double().mean())
    apart, floor = abs(share - chance), (2 / torch.pi * chance * (1 - chance) / draws) ** 0.5
    limit = fit.binomial_limit(chance, draws)
    name = "share of draws that another offset leaves, against sum of p^2"
    return Figure(name, draws, share, chance, apart, floor, limit, None, "drawn_again")


def drawn_again(sdo, draws, vocab=1000):
    """How many draws of 8 rows differ in reverse order and in other memory, each with its seed."""
    g = torch.Generator().manual_seed(2)
    distinct = 3 * torch.randn(8, vocab, generator=g)
    seeds, offsets = torch.arange(draws), torch.arange(draws) * 3
    changed = 0
    for i, row in enumerate(distinct):
        mine = slice(i, None, len(distinct))
        at = {"seed": seeds[mine], "offset": offsets[mine]}
        turned = {name: tensor.flip(0) for name, tensor in at.items()}
        memory = torch.full((vocab + 1,), torch.nan)
        memory[1:] = row
        once = sdo.sample(row.expand(len(seeds[mine]), -1), top_p=0.9, **at)
        again = sdo.sample(memory[1:].expand(len(once), -1), top_p=0.9, **turned)
        changed += int((once != again.flip(0)).sum())
    name = "draws changed by batch order and alignment, at the same seed and offset"
    return Figure(name, draws, changed, 0, changed, 0, 0.5, 0, "drawn_again")
