# SPDX-License-Identifier: Apache-2.0
"""What is published of the cards that benchmarks/model.py predicts for.

H200, H100: NVIDIA's data sheets of the SXM5 cards and "NVIDIA H100 Tensor Core GPU Architecture".
A100: "NVIDIA A100 Tensor Core GPU Architecture", SXM4 80 GB, which also gives its L2's 5120 bytes a
cycle. L4: NVIDIA's data sheet and "NVIDIA Ada GPU Architecture" (AD104). Of the other cards' L2 no
rate is published: as many bytes a cycle as the A100's are assumed for Hopper, and half for L4.
Clocks are the boost clocks; an L4 of 72 W holds its own only in short bursts.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    name: str
    multiprocessors: int
    ghz: float
    dram_gbs: float
    l2_mb: float
    l2_bytes_a_cycle: int
    shared_kb: int  # of an SM

    @property
    def l2_gbs(self):
        return self.l2_bytes_a_cycle * self.ghz


CARDS = {
    card.name: card
    for card in (
        Card("H200", 132, 1.98, 4800, 50, 5120, 227),
        Card("H100", 132, 1.98, 3350, 50, 5120, 227),
        Card("A100", 108, 1.41, 2039, 40, 5120, 163),
        Card("L4", 58, 2.04, 300, 48, 2560, 99),
    )
}


def card_named(name):
    """The card of a device's name as CUDA gives it, such as "NVIDIA H100 80GB HBM3", or None.
    Others of a family, as on PCIe, are other cards."""
    words = name.replace("-", " ").split()
    if "PCIe" in words or "PCIE" in words or "NVL" in words:
        return None
    return next((CARDS[word] for word in words if word in CARDS), None)
