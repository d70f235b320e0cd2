"""Draws docs/pictures/ippo.png: learning curves of independent PPO here and in JaxMARL, from ippo.csv.

python docs/pictures/ippo.py
"""

import csv
import pathlib

import matplotlib.pyplot as plt
import numpy as np

FOLDER = pathlib.Path(__file__).parent
COLOURS = {
    "jaxenv": "tab:blue",
    "jaxenv, centralised critic": "tab:green",
    "jaxenv, limit as end": "tab:cyan",
    "JaxMARL": "tab:orange",
}


def main() -> None:
    """Reads the curves and draws the picture."""
    with (FOLDER / "ippo.csv").open() as file:
        rows = list(csv.DictReader(file))
    ids = list(dict.fromkeys(row["id"] for row in rows))
    figure, axes = plt.subplots(1, len(ids), figsize=(4 * len(ids), 3.2), layout="constrained", squeeze=False)
    for axis, id in zip(axes.flat, ids, strict=True):
        curves = dict.fromkeys((row["side"], row["seed"]) for row in rows if row["id"] == id)
        for side, seed in curves:
            points = [row for row in rows if (row["id"], row["side"], row["seed"]) == (id, side, seed)]
            steps, returns = (np.array([row[name] for row in points], float) for name in ("steps", "return"))
            axis.plot(steps / 1e6, returns, color=COLOURS[side], label=side if seed == "0" else None)
        axis.set_title(id, fontsize=10)
        axis.set_xlabel("million steps of games", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    axes[0, 0].set_ylabel("return of an agent", fontsize=8)
    figure.savefig(FOLDER / "ippo.png", dpi=100)


if __name__ == "__main__":
    main()
