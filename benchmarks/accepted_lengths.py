# SPDX-License-Identifier: Apache-2.0
"""The accepted lengths of 600 rounds beside their analytic law, as an animation made from a run of
the kernels: `python benchmarks/accepted_lengths.py FILE.gif`.

K = 4 drafts, V = 32000, a draft that differs from the target on purpose. With beta_i = sum of
min(p_i, q_i), a round accepts i tokens with probability beta_0 ... beta_{i-1} (1 - beta_i).
"""

import argparse
from pathlib import Path

import torch

ROUNDS, DRAFTS, VOCAB = 600, 4, 32000
STEP = 12  # rounds of a frame
INK, LAW = "#0b6e99", "#d9730d"


def models():
    """Target logits [K+1, V] and draft logits [K, V]."""
    g = torch.Generator().manual_seed(1)
    target = 2 * torch.randn(DRAFTS + 1, VOCAB, generator=g)
    return target, target[:DRAFTS] + 0.75 * torch.randn(DRAFTS, VOCAB, generator=g)


def law(target, draft):
    """Of the lengths 0 .. K."""
    p, q = target[:DRAFTS].double().softmax(-1), draft.double().softmax(-1)
    reached = torch.cat([torch.ones(1).double(), torch.minimum(p, q).sum(-1).cumprod(0)])
    return reached - torch.cat([reached[1:], torch.zeros(1).double()])


def lengths(sdo, rounds=ROUNDS, seed=3):
    """How many tokens each round accepted, int64 [rounds]."""
    target, draft = models()
    accepted = []
    for number in range(rounds):
        offset = (DRAFTS + 1) * number
        tokens = [sdo.sample(draft[j], seed=seed, offset=offset + j) for j in range(DRAFTS)]
        n, _ = sdo.verify(
            target[None], draft[None], torch.stack(tokens)[None], seed=seed, offset=offset
        )
        accepted.append(n)
    return torch.cat(accepted)


def frame(accepted, chances):
    """A picture of the rounds so far."""
    import matplotlib.pyplot as plt
    from PIL import Image

    n, places = len(accepted), range(DRAFTS + 1)
    shares = torch.bincount(accepted, minlength=DRAFTS + 1) / n
    figure, axes = plt.subplots(figsize=(5.6, 3.4), dpi=100)
    axes.bar(places, shares, color=INK, width=0.72, label="measured")
    spread = 2 * (chances * (1 - chances) / n).sqrt()
    axes.errorbar(
        places, chances, spread, fmt="_", ms=34, mew=2, color=LAW, label="law, 2 deviations"
    )
    axes.set_ylim(0, 0.62)
    axes.set_xlabel(f"draft tokens accepted of {DRAFTS}")
    axes.set_ylabel("share of rounds")
    mean = float(accepted.double().mean())
    wanted = float(chances @ torch.arange(DRAFTS + 1).double())
    axes.set_title(f"{n:3d} rounds   mean {mean:.3f}   law {wanted:.3f}", family="monospace")
    axes.legend(frameon=False, fontsize=8, loc="upper center", markerscale=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.canvas.draw()
    size = figure.canvas.get_width_height()
    image = Image.frombytes("RGBA", size, bytes(figure.canvas.buffer_rgba())).convert("RGB")
    plt.close(figure)
    return image.quantize(16, dither=Image.Dither.NONE)


def animate(accepted, path):
    import matplotlib

    matplotlib.use("agg")
    chances = law(*models())
    frames = [frame(accepted[:n], chances) for n in range(STEP, len(accepted) + 1, STEP)]
    waits = [120] * (len(frames) - 1) + [3000]  # milliseconds
    path.parent.mkdir(parents=True, exist_ok=True)
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=waits, loop=0, optimize=True
    )


def main():
    from table import load

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    accepted = lengths(load())
    animate(accepted, arguments.file)
    print(f"{len(accepted)} rounds, mean {accepted.double().mean():.3f}: {arguments.file}")


if __name__ == "__main__":
    main()
