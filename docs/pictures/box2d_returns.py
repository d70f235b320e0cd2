"""Draws docs/pictures/box2d-returns.png: returns of Gymnasium's heuristic pilot in 1000 episodes there and here.

pip install ".[test]" "gymnasium[box2d]"
python -m docs.pictures.box2d_returns
"""

import pathlib

import matplotlib.pyplot as plt
import numpy as np

import jaxenv
from tests.envs.box2d import episodes

EPISODES = 1000
PATH = pathlib.Path(__file__).with_name("box2d-returns.png")


def main() -> None:
    """Plays the episodes and draws the picture."""
    kinds = [kind for kind in episodes.KINDS if kind.startswith("heuristic")]
    figure, axes = plt.subplots(1, len(kinds), figsize=(12, 3.4), layout="constrained")
    for axis, kind in zip(axes, kinds, strict=True):
        options = episodes.KINDS[kind]
        theirs = episodes.record(range(50_000, 50_000 + EPISODES), "heuristic", options)["return"]
        ours = episodes.played(jaxenv.make("LunarLander-v3", EPISODES, autoreset=None, **options))["return"]
        distance, p = episodes.smirnov(ours, theirs)
        for name, values, style in (("Gymnasium", theirs, "-"), ("jaxenv", ours, "--")):
            axis.plot(np.sort(values), np.arange(1, EPISODES + 1) / EPISODES, style, label=name)
        variant = kind.removeprefix("heuristic").strip() or "discrete"
        axis.set_title(f"LunarLander-v3, {variant}: distance {distance:.3f}, p = {p:.2f}", fontsize=10)
        axis.set_xlabel("return")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("fraction of the episodes")
    axes[0].legend()
    figure.savefig(PATH, dpi=100)


if __name__ == "__main__":
    main()
