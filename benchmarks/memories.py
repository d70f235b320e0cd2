"""PPO with each model of memory on ten tasks of POPGym, compared with published results: five seeds a run.

``python -m benchmarks memories`` adds the runs that its file lacks; ``--table`` and ``--plot PATH`` show it.
"""

import argparse
import csv
import dataclasses
import itertools
import pathlib
import sys
import time
from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks import command, tables, training
from jaxenv.training import memories, ppo, seeds

RESULTS = pathlib.Path(__file__).parent / "results" / "memories.csv"
NUM_SEEDS = 5
MODELS = ("none", *memories.MODELS)

# The score of a GRU of 256 units and its standard deviation over three trials of 15 million steps: Morad et al. (2023),
# arXiv:2303.01859, table 3, as copied in github.com/bryjudy/fly-critic (a93e8b9), flycritic/popgym/results.py.
PUBLISHED = {
    "RepeatPrevious": (1.000, 0.000),
    "RepeatFirst": (1.000, 0.000),
    "CountRecall": (0.177, 0.005),
    "Autoencode": (-0.283, 0.029),
    "HigherLower": (0.529, 0.002),
    "MultiarmedBandit": (0.619, 0.007),
    "PositionOnlyCartPole": (1.000, 0.000),
    "NoisyPositionOnlyCartPole": (0.995, 0.000),
}
GAMES = (*PUBLISHED, "VelocityOnlyCartPole", "MineSweeper")

# The same for all tasks and models. As in POPGym's baselines, the policy sees its last action and is evaluated as it
# explores.
SETTINGS = ppo.Config(
    wrappers=(("PreviousActionAndReward", {"reward": False}),),
    total_steps=131_072,
    num_envs=64,
    num_steps=32,
    num_epochs=4,
    num_minibatches=4,
    learning_rate=3e-3,
    gamma=0.99,
    lambda_=0.95,
    entropy_cost=0.01,
    anneal_entropy=True,
    hidden=(32,),
    torso="mlp",
    num_evaluations=8,
    num_eval_episodes=64,
    eval_explore=True,
)
MEMORY = {"recurrent": 32, "window": 32}
STEPS = np.arange(1, SETTINGS.num_evaluations + 1) * SETTINGS.total_steps // SETTINGS.num_evaluations

Runs = dict[tuple[str, str], np.ndarray]  # by game and model, mean returns [seeds, evaluations]


def run(game: str, model: str) -> list[list[object]]:
    """Trains all seeds at once and returns a line for each: game, model, seed, seconds and the mean returns."""
    memory = {} if model == "none" else {"cell": model, **MEMORY}
    started = time.perf_counter()
    *_, last = seeds.train(dataclasses.replace(SETTINGS, env_id=f"{game}Easy-popgym", **memory), NUM_SEEDS)
    seconds = round(time.perf_counter() - started)
    returns = np.asarray(last.curve.returns, np.float64).mean(axis=-1).round(4).T  # [seeds, evaluations]
    return [[game, model, seed, seconds, *of_seed] for seed, of_seed in enumerate(returns.tolist())]


def add(lines: Iterable[Sequence[object]]) -> None:
    """Adds the lines of a run to the file."""
    if not RESULTS.exists():
        lines = [["game", "model", "seed", "seconds", *STEPS.tolist()], *lines]
    with RESULTS.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def load() -> Runs:
    """Loads the returns of the finished runs."""
    runs: dict[tuple[str, str], list[list[float]]] = {}
    for line in RESULTS.read_text().splitlines()[1:] if RESULTS.exists() else ():
        game, model, _, _, *returns = line.split(",")
        runs.setdefault((game, model), []).append([float(x) for x in returns])
    return {name: np.array(returns) for name, returns in runs.items()}


def table(runs: Runs) -> str:
    """Formats two Markdown tables: the returns at the end with their intervals, and POPGym's score."""
    ends, scores = [], []
    for game in GAMES:
        found = [runs.get((game, model)) for model in MODELS]
        ends.append([game, *("-" if x is None else _with_interval(x[:, -1]) for x in found)])
        published = "{:.3f} ± {:.3f}".format(*PUBLISHED[game]) if game in PUBLISHED else "-"
        scores.append([game, *("-" if x is None else f"{x.max(axis=1).mean():.2f}" for x in found), published])
    header = ["game", *MODELS]
    return "\n".join([*tables.markdown(header, ends), "", *tables.markdown([*header, "GRU, published"], scores)])


def _with_interval(values: np.ndarray) -> str:
    low, high = training.interval(values)
    return f"{values.mean():.2f} ({low:.2f} to {high:.2f})"


def draw(runs: Runs, path: pathlib.Path) -> None:
    """Draws the mean return of each model over the steps, its range over the seeds, and the published score."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 5, figsize=(14, 5.6), layout="constrained")
    for axis, game in zip(axes.flat, GAMES, strict=True):
        for color, model in enumerate(MODELS):
            if (game, model) in runs:
                returns = runs[game, model]
                axis.plot(STEPS / 1e3, returns.mean(axis=0), color=f"C{color}", label=model)
                axis.fill_between(STEPS / 1e3, returns.min(axis=0), returns.max(axis=0), color=f"C{color}", alpha=0.15)
        if game in PUBLISHED:
            axis.axhline(PUBLISHED[game][0], color="black", linestyle="--", linewidth=1, label="GRU, published")
        axis.set_title(game, fontsize=10)
        axis.set_xlabel("thousand steps", fontsize=8)
        axis.tick_params(labelsize=8)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--table", action="store_true", help="run nothing, print the tables of the stored results")
    parser.add_argument("--plot", type=command.png_file, metavar="PATH", help="draw the stored results, after any runs")


def main(args: argparse.Namespace) -> int:
    """Adds the runs that the file lacks, and prints the tables."""
    for game, model in () if args.table else itertools.product(GAMES, MODELS):
        if (game, model) not in load():
            print(f"{game}, {model} ...", file=sys.stderr)
            add(run(game, model))
    print(table(load()))
    if args.plot:
        draw(load(), args.plot)
    return 0
