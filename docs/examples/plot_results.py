"""Draws the learning curves in ``results/``: ``docs/pictures/interop-clients.png`` and ``minigrid-curricula.png``."""

import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FOLDER = pathlib.Path(__file__).parent
CLIENTS = {
    "purejaxrl_ppo": "purejaxrl",
    "stable_baselines3_ppo": "stable-baselines3",
    "cleanrl_ppo": "CleanRL's style",
    "torchrl_ppo": "TorchRL",
    "brax_ppo": "Brax (evaluation)",
}

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for name, label in CLIENTS.items():
    steps, returns = np.loadtxt(FOLDER / "results" / f"{name}.csv", delimiter=",", skiprows=1).T
    axes.plot(steps / 1000, returns, label=label)
axes.axhline(475, color="grey", linewidth=1, linestyle=":")
axes.set(xlabel="thousand environment steps", ylabel="return", title="PPO of five libraries on CartPole-v1")
axes.legend(loc="lower right")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(FOLDER.parent / "pictures" / "interop-clients.png", dpi=110)

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for colour, name in enumerate(("MultiRoom-N4-S5", "ObstructedMaze-2Dlh", "LockedRoom")):
    steps, *returns = np.loadtxt(FOLDER / "results" / f"MiniGrid-{name}-v0.csv", delimiter=",", skiprows=1).T
    lines = axes.plot(steps / 1e6, np.transpose(returns), color=f"C{colour}")
    lines[0].set_label(f"{name}, {len(lines)} seed{'s' if len(lines) > 1 else ''}")
axes.set(xlabel="million environment steps of all levels", ylabel="return", title="PPO from curricula")
axes.legend(loc="lower right")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(FOLDER.parent / "pictures" / "minigrid-curricula.png", dpi=110)
