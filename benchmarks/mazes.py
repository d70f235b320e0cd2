"""Solve rates of curricula on the held-out mazes: trains, plays every maze, and films the levels of the curriculum.

``python -m benchmarks mazes --curricula dr robust_plr --total-steps 4000000 --json PATH --film PATH``. See README.md.
"""

import argparse
import dataclasses
import itertools
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from benchmarks import command, tables
from jaxenv import rollout
from jaxenv.canvas._films import write_film
from jaxenv.envs.grid import amaze
from jaxenv.rollout.plot._curves import interval
from jaxenv.training import paired, ued

ID = "AMaze-13x13-v0"
CURRICULA = ("dr", "plr", "robust_plr", "accel", "sfl", "paired")
NUM_MAZES = 9  # those with names in the published tables: the last three of `held_out` are trivial
_FILMED = 16
# More and larger steps of the optimiser than by jaxued's settings, the defaults of `ued.Config`: runs of millions of
# steps, not of 245 million, then solve mazes.
_SHORT = {"num_envs": 64, "num_epochs": 4, "num_minibatches": 8, "learning_rate": 7e-4, "gamma": 0.99, "lambda_": 0.95}
_SHORT |= {"entropy_cost": 0.01, "recurrent": 128, "capacity": 1000}


def run(curriculum: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Trains one run and returns its row; a film shows levels of the curriculum at each evaluation."""
    config = ued.Config(
        curriculum=curriculum,
        total_steps=args.total_steps,
        num_evaluations=args.num_evaluations,
        **({} if args.published else _SHORT),
    )
    started, curve, frames = time.monotonic(), [], []
    for learner, steps, (solved,) in evaluations(config, [seed], args.attempts):
        curve.append({"steps": steps, "seconds": time.monotonic() - started, "solved": solved.tolist()})
        print(f"{curriculum}, seed {seed}, {steps:,} steps: {solved.mean():.2f} of the attempts", flush=True)
        if args.film is not None and (levels := chosen(learner)) is not None:
            frames.append(picture(config.make_env(_FILMED), levels))
    if frames:
        write_film(args.film.with_stem(f"{args.film.stem}-{curriculum}-{seed}"), frames, 2)
    names, _ = held_out()
    return {"curriculum": curriculum, "seed": seed, "mazes": list(names), "attempts": args.attempts, "curve": curve}


def evaluations(config: ued.Config, seeds: Sequence[int], attempts: int) -> Iterator[tuple[Any, int, np.ndarray]]:
    """Trains and yields after every evaluation the learner, the steps so far and the solve rates ``[S, num_mazes]``.

    Several seeds are one program under ``vmap``, in which both branches of a condition run; a single one is not.
    """
    names, mazes = held_out()
    config = dataclasses.replace(config, num_eval_episodes=len(names) * attempts)
    env, eval_env = config.make_env(config.num_envs), config.make_env(len(names), "eval").with_level(mazes)
    train, several = ued.make_train(config, env, eval_env), len(seeds) > 1
    keys = jax.vmap(jax.random.key)(np.array(seeds)) if several else jax.random.key(seeds[0])
    init, iteration = (jax.jit(jax.vmap(f) if several else f) for f in (train.init, train.iteration))
    learner = init(keys)
    for _ in range(config.num_evaluations):
        learner, found = iteration(learner)
        solved = np.asarray(found.returns > 0).reshape(len(seeds), len(names), attempts).mean(axis=2)
        yield learner, int(np.ravel(found.steps)[0]), solved


def held_out() -> tuple[Sequence[str], Any]:
    """Returns the names and the levels of the held-out mazes."""
    names, mazes = amaze.held_out()
    return names[:NUM_MAZES], jax.tree.map(lambda x: x[:NUM_MAZES], mazes)


def chosen(learner: Any) -> Any:
    """Returns the levels with the highest scores in the buffer, or those that an adversary built, if there are any."""
    if isinstance(learner, paired.Learner):
        return learner.levels
    if not isinstance(learner, ued.Learner) or not learner.buffer.size:  # domain randomisation keeps no levels
        return None
    best = np.argsort(-np.asarray(learner.buffer.scores))[: int(learner.buffer.size)]
    return jax.tree.map(lambda x: x[best], learner.buffer.levels)


def picture(env: jaxenv.Environment, levels: Any) -> np.ndarray:
    """Returns a picture, uint8 ``[H, W, 3]``, of the first levels; ``env`` has `_FILMED` lanes."""
    number = len(jax.tree.leaves(levels)[0])
    first = np.resize(np.arange(number)[:_FILMED], _FILMED)  # repeated while there are fewer
    state, _ = env.reset(jax.random.key(0), level=jax.tree.map(lambda x: x[first], levels))
    tiles = np.asarray(env.render(state, 96)).reshape(4, 4, 96, 96, 3)
    return tiles.transpose(0, 2, 1, 3, 4).reshape(384, 384, 3)


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the solve rates at the end of the runs, and draws the plot.

    They are means over seeds in percent, the last with its 95% interval.
    """
    if args.plot is not None:
        plot(rows, args.plot)
    lines = []
    for curriculum, (steps, solved) in curves(rows).items():
        last = 100 * solved[-1]
        mean, low, high = (x[0] for x in interval(last.mean(axis=1)[None], "mean", 0.95, 2000))
        shown = [*(f"{x:.0f}" for x in last.mean(axis=0)), f"{mean:.0f}", f"{low:.0f} to {high:.0f}"]
        lines.append([curriculum, f"{steps[-1]:,}", str(len(last)), *shown])
    return tables.table(["curriculum", "steps", "seeds", *rows[0]["mazes"], "mean", "interval"], lines)


def curves(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns for each curriculum the steps ``[N]`` and the solve rates ``[N, num_seeds, num_mazes]``."""
    found = {}
    for curriculum in dict.fromkeys(row["curriculum"] for row in rows):
        runs = [row["curve"] for row in rows if row["curriculum"] == curriculum]
        solved = np.array([[point["solved"] for point in run] for run in runs]).swapaxes(0, 1)
        found[curriculum] = np.array([point["steps"] for point in runs[0]]), solved
    return found


def plot(rows: Sequence[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws the mean solve rate over the steps."""
    named = {name: (steps, solved.mean(axis=2)) for name, (steps, solved) in curves(rows).items()}
    figure = rollout.plot.curves(named, title=f"{ID}, {NUM_MAZES} held-out mazes")
    figure.axes[0].set(ylabel="fraction of the attempts that reach the goal", ylim=(0, None))
    figure.savefig(path, dpi=120)


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--curricula", nargs="+", choices=CURRICULA, default=["dr", "robust_plr"], help="curricula")
    parser.add_argument("--total-steps", type=command.positive, default=2**22, metavar="N", help="steps of a run")
    parser.add_argument("--num-evaluations", type=command.positive, default=8, metavar="N", help="evaluations of a run")
    parser.add_argument("--attempts", type=command.positive, default=10, metavar="N", help="episodes in each maze")
    parser.add_argument("--seeds", type=command.positive, default=1, metavar="N", help="runs of each curriculum")
    parser.add_argument("--published", action="store_true", help="jaxued's settings, for hundreds of millions of steps")
    parser.add_argument("--film", type=pathlib.Path, metavar="PATH", help="films of the levels, one per run")
    parser.add_argument("--plot", type=command.png_file, metavar="PATH", help="curves of the solve rates")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Trains every curriculum with every seed."""
    for seed, curriculum in itertools.product(range(args.seeds), args.curricula):
        yield run(curriculum, seed, args)
