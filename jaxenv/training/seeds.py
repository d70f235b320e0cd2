"""Several seeds of one run at once, on the host: leg by leg, with a checkpoint, a table and a picture.

All seeds are one compiled function under `jax.vmap`. After every leg a folder holds all that there is so far, so that a
run that was killed goes on from its last leg, bit for bit as if nothing had happened.
"""

import csv
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import data, tree
from jaxenv.training import ppo

CHECKPOINT, CONFIG, CURVE, PICTURE = "checkpoint.npz", "config.json", "curve.csv", "curve.png"


@tree.struct
class Run:
    """Where a run of N seeds stands.

    Attributes:
        learner: the seeds' learners, leaves ``[N, ...]``.
        curve: the evaluations, leaves ``[num_evaluations, N, ...]``; zeros where they are still to come.
        legs: int32 ``()``, how many have been trained.
    """

    learner: ppo.Learner
    curve: ppo.Curve
    legs: jax.Array


def train(
    config: ppo.Config,
    num_seeds: int,
    seed: int = 0,
    folder: str | os.PathLike | None = None,
    resume: bool = False,
    threshold: float | None = None,
) -> Iterator[Run]:
    """Trains ``num_seeds`` seeds and gives the `Run` after each leg that is still to come.

    A leg ends with an evaluation: there are ``config.num_evaluations``. A run that is complete is given once. What is
    given is the device's own memory, which the next leg takes over: copy what is to stay.

    Args:
        config: of the run.
        num_seeds: N.
        seed: of the key that the seeds' keys are split from.
        folder: made where it is not there; after each leg it holds ``checkpoint.npz``, ``config.json``, ``curve.csv``
            (one line per seed and evaluation) and ``curve.png``.
        resume: go on from the folder's checkpoint, where there is one.
        threshold: a return to draw into the picture.

    Raises:
        ValueError: if the folder holds a run and ``resume`` is not set, or one of another config, naming the field; for
            an environment that cannot be learned; and for numbers out of range.
    """
    for name, value, least in (("num_seeds", num_seeds, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"train: {name} must be an integer of at least {least}, got {value!r}")
    legs = ppo.make_legs(config)
    folder = None if folder is None else pathlib.Path(folder)
    if folder is not None:
        given = {**dataclasses.asdict(config), "num_seeds": num_seeds, "seed": seed}
        _claim(folder, json.loads(json.dumps(given)), resume)
    return _train(config, legs, jax.random.split(jax.random.key(seed), num_seeds), folder, threshold)


def _train(
    config: ppo.Config,
    legs: tuple[Callable, Callable],
    keys: jax.Array,
    folder: pathlib.Path | None,
    threshold: float | None,
) -> Iterator[Run]:
    begin, leg = legs
    advance = jax.jit(jax.vmap(leg), donate_argnums=0)
    learners, entries = jax.eval_shape(lambda keys: jax.vmap(lambda key: leg(begin(key)))(keys), keys)
    curve = jax.tree.map(lambda x: jax.ShapeDtypeStruct((config.num_evaluations, *x.shape), x.dtype), entries)
    if folder is not None and (folder / CHECKPOINT).exists():
        shapes: Any = Run(learners, curve, tree.zeros(jax.ShapeDtypeStruct((), jnp.int32)))
        run = data.restore(folder / CHECKPOINT, shapes)
    else:
        run = Run(jax.jit(jax.vmap(begin))(keys), tree.zeros(curve), jnp.zeros((), jnp.int32))
    if int(run.legs) == config.num_evaluations:
        yield run
    for number in range(int(run.legs), config.num_evaluations):
        learner, entry = advance(run.learner)
        curve = jax.tree.map(lambda all_, one: all_.at[number].set(one), run.curve, entry)  # noqa: B023
        run = Run(learner, curve, run.legs + np.int32(1))
        if folder is not None:
            write_curve(folder / CURVE, run)
            draw_curve(folder / PICTURE, run, config.env_id, threshold)
            # Last: what it says is done has been written.
            data.save(folder / CHECKPOINT, run)
        yield run


def _claim(folder: pathlib.Path, given: dict[str, Any], resume: bool) -> None:
    """Makes a folder this run's own, or sees that it is."""
    path = folder / CONFIG
    there = [name for name in (CHECKPOINT, CONFIG, CURVE, PICTURE) if (folder / name).exists()]
    if not there:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(given, indent=1) + "\n")
        return
    if not resume:
        raise ValueError(f"train: {folder} holds a run ({there[0]}): resume it, or take another folder")
    try:
        found = json.loads(path.read_text())
        names = sorted(given.keys() | found.keys())
    except (OSError, ValueError, AttributeError):
        raise ValueError(f"train: {path} does not hold the config of a run, so there is none to resume") from None
    for name in names:
        if given.get(name) != found.get(name):
            raise ValueError(f"train: {folder} holds a run with {name} = {found.get(name)!r}, not {given.get(name)!r}")


def rows(run: Run) -> list[dict[str, Any]]:
    """The curve so far as one dict per seed and evaluation: ``steps``, ``seed``, ``train_return`` and so on, scalars.

    ``train_return`` is the mean return of the episodes that ended since the evaluation before, exploring, in rewards as
    the wrappers of training pay them (``None`` where none ended). ``eval_return`` is the mean of the environment's own
    rewards without exploration, with its standard error, over whole episodes; ``eval_unfinished`` counts those that
    were cut off, which count nowhere else.
    """
    curve = jax.device_get(run.curve)
    found = []
    for number in range(int(run.legs)):
        for seed in range(curve.steps.shape[1]):
            finished = curve.finished[number, seed]
            returns, lengths, terminated = (
                getattr(curve, name)[number, seed][finished].astype(np.float64)
                for name in ("returns", "lengths", "terminated")
            )
            some, several = returns.size > 0, returns.size > 1
            trained = float(curve.train["return_mean"][number, seed])
            found.append(
                {
                    "steps": int(curve.steps[number, seed]),
                    "seed": seed,
                    "train_return": trained if np.isfinite(trained) else None,
                    "eval_return": float(returns.mean()) if some else None,
                    "eval_standard_error": float(returns.std(ddof=1) / np.sqrt(returns.size)) if several else None,
                    "eval_length": float(lengths.mean()) if some else None,
                    "eval_terminated": float(terminated.mean()) if some else None,
                    "eval_unfinished": int((~finished).sum()),
                }
            )
    return found


def write_curve(path: pathlib.Path, run: Run) -> None:
    """Writes `rows` as CSV."""
    found = rows(run)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)


def draw_curve(path: pathlib.Path, run: Run, title: str, threshold: float | None = None) -> None:
    """Draws the mean return without exploration over the steps: a thin line a seed, a thick one for their mean."""
    from matplotlib.figure import Figure

    found = rows(run)
    num_seeds = 1 + max(row["seed"] for row in found)
    steps = np.array([row["steps"] for row in found if row["seed"] == 0])
    returns = np.array([row["eval_return"] for row in found], float).reshape(len(steps), num_seeds)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    axis.plot(steps, returns, color="tab:blue", alpha=0.3, linewidth=1)
    axis.plot(
        steps, returns.mean(axis=1), color="tab:blue", linewidth=2, marker="o", label=f"mean of {num_seeds} seeds"
    )
    if threshold is not None:
        axis.axhline(threshold, color="grey", linestyle="--", linewidth=1, label=f"solved at {threshold:g}")
    axis.set(xlabel="environment steps", ylabel="mean return without exploration", title=title)
    axis.set_xlim(left=0)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
