"""Several seeds of one run at once, iteration by iteration, with checkpoints, a table and a picture.

All seeds are one compiled function under `jax.vmap`. After every iteration a folder holds all results so far. A run
that was killed resumes from its last iteration, bit for bit as if it had never stopped.
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

import jaxenv
from jaxenv import data, plot, tree
from jaxenv._checks import check_integer
from jaxenv.training import _run_films, ppo

CHECKPOINT, CONFIG, CURVE, PICTURE = "checkpoint.npz", "config.json", "curve.csv", "curve.png"


@tree.struct
class Run:
    """The state of a run of N seeds.

    Attributes:
        learner: the seeds' learners, leaves ``[N, ...]``.
        curve: the evaluations, leaves ``[num_evaluations, N, ...]``; zeros for those still to come.
        iterations: int32 ``()``, the number of iterations so far.
    """

    learner: ppo.Learner
    curve: ppo.Curve
    iterations: jax.Array


def train(
    config: ppo.Config,
    num_seeds: int,
    seed: int = 0,
    folder: str | os.PathLike | None = None,
    resume: bool = False,
    threshold: float | None = None,
    film_every: int | None = None,
) -> Iterator[Run]:
    """Trains ``num_seeds`` seeds and yields the `Run` after each iteration; a complete run is yielded once.

    An iteration ends with an evaluation; there are ``config.num_evaluations``. The yielded arrays are donated to the
    next iteration: copy what must outlive it.

    Args:
        config: the settings of the run.
        num_seeds: N, the number of seeds.
        seed: the seed of the key that is split into N keys.
        folder: a folder, created if missing. After each iteration it holds ``checkpoint.npz``, ``config.json``,
            ``curve.csv`` (one line per seed and evaluation) and ``curve.png``.
        resume: continue from the checkpoint in the folder, if there is one.
        threshold: a return to mark in the picture.
        film_every: write a film of the policy, of the seed that is best at the time, after every N-th evaluation, as
            ``films/steps-S.gif`` in the folder. A thread does so while training goes on; the last iteration waits for
            it.

    Raises:
        ValueError: if the folder holds a run and ``resume`` is not set; for ``film_every`` without a folder or a
            picture; if that run has another config, naming the
            field; for an environment that PPO cannot learn; and for numbers out of range.
    """
    check_integer("train", "num_seeds", num_seeds, 1)
    check_integer("train", "seed", seed, 0)
    if film_every is not None:
        check_integer("train", "film_every", film_every, 1)
        if folder is None:
            raise ValueError("train: film_every needs a folder")
        film_env = jaxenv.load(config.env_id, wrappers=config.wrappers, mode="eval")
        jax.eval_shape(lambda key: film_env.render(film_env.reset(key)[0]), jax.random.key(0))  # has it a picture?
    init_and_iteration = ppo.make_iteration(config)
    folder = None if folder is None else pathlib.Path(folder)
    settings: dict[str, Any] = {}
    if folder is not None:
        named = {"algorithm": "ppo", **dataclasses.asdict(config), "num_seeds": num_seeds, "seed": seed}
        settings = json.loads(json.dumps(named))
        _claim(folder, settings, resume)
    keys = jax.random.split(jax.random.key(seed), num_seeds)
    runs = _train(config, init_and_iteration, keys, folder, settings, threshold)
    return runs if folder is None or film_every is None else _run_films.filmed(runs, folder, config, film_every)


def _train(
    config: ppo.Config,
    init_and_iteration: tuple[Callable, Callable],
    keys: jax.Array,
    folder: pathlib.Path | None,
    settings: dict[str, Any],
    threshold: float | None,
) -> Iterator[Run]:
    init, iteration = init_and_iteration
    advance = jax.jit(jax.vmap(iteration), donate_argnums=0)
    learners, evaluations = jax.eval_shape(lambda keys: jax.vmap(lambda key: iteration(init(key)))(keys), keys)
    curve = jax.tree.map(lambda x: jax.ShapeDtypeStruct((config.num_evaluations, *x.shape), x.dtype), evaluations)
    if folder is not None and (folder / CHECKPOINT).exists():
        shapes: Any = Run(learners, curve, tree.zeros(jax.ShapeDtypeStruct((), jnp.int32)))
        run = data.restore(folder / CHECKPOINT, shapes)
    else:
        run = Run(jax.jit(jax.vmap(init))(keys), tree.zeros(curve), jnp.zeros((), jnp.int32))
    if int(run.iterations) == config.num_evaluations:
        yield run
    for number in range(int(run.iterations), config.num_evaluations):
        learner, evaluation = advance(run.learner)
        curve = jax.tree.map(lambda all_, one: all_.at[number].set(one), run.curve, evaluation)  # noqa: B023
        run = Run(learner, curve, run.iterations + np.int32(1))
        if folder is not None:
            write_curve(folder / CURVE, run)
            draw_curve(folder / PICTURE, run, config.env_id, threshold)
            # The checkpoint comes last: it must not claim an iteration whose other files are missing.
            data.save(folder / CHECKPOINT, run, config=settings)
        yield run


def _claim(folder: pathlib.Path, settings: dict[str, Any], resume: bool) -> None:
    """Writes the config into a new folder, or checks that an existing one belongs to this run."""
    path = folder / CONFIG
    present = [name for name in (CHECKPOINT, CONFIG, CURVE, PICTURE) if (folder / name).exists()]
    if not present:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings, indent=1) + "\n")
        return
    if not resume:
        raise ValueError(f"train: {folder} holds a run ({present[0]}): resume it, or choose another folder")
    try:
        stored = {"algorithm": "ppo", **json.loads(path.read_text())}  # which older folders do not name
        names = sorted(settings.keys() | stored.keys())
    except (OSError, ValueError, TypeError):
        raise ValueError(f"train: {path} is not the config of a run, so there is none to resume") from None
    # The checkpoint holds the config too: it may have been copied from another run.
    checkpointed = data.checkpoint_info(folder / CHECKPOINT).config if CHECKPOINT in present else stored
    checkpointed = {"algorithm": "ppo", **checkpointed}
    for source in (stored, checkpointed):
        for name in names:
            if settings.get(name) != source.get(name):
                raise ValueError(
                    f"train: {folder} holds a run with {name} = {source.get(name)!r}, not {settings.get(name)!r}"
                )


def rows(run: Run) -> list[dict[str, Any]]:
    """The curve so far: one dict of scalars per seed and evaluation.

    ``train_return`` is the mean return of the exploring episodes that ended since the previous evaluation, in the
    rewards of the training stack (``None`` where none ended). ``eval_return`` is the mean return of whole episodes
    without exploration, in the environment's own rewards, followed by its standard error. Episodes that were cut off
    count in ``eval_unfinished`` alone. The losses are those of `ppo.Losses`.
    """
    curve = jax.device_get(run.curve)
    return [
        _row(jax.tree.map(lambda x: x[number, seed], curve), seed)  # noqa: B023
        for number in range(int(run.iterations))
        for seed in range(curve.steps.shape[1])
    ]


def _row(evaluation: ppo.Curve, seed: int) -> dict[str, Any]:
    finished = evaluation.finished
    returns, lengths, terminated = (
        x[finished].astype(np.float64) for x in (evaluation.returns, evaluation.lengths, evaluation.terminated)
    )
    some, several = returns.size > 0, returns.size > 1
    train_return = float(evaluation.train["return_mean"])
    return {
        "steps": int(evaluation.steps),
        "seed": seed,
        "train_return": train_return if np.isfinite(train_return) else None,
        "eval_return": float(returns.mean()) if some else None,
        "eval_standard_error": float(returns.std(ddof=1) / np.sqrt(returns.size)) if several else None,
        "eval_length": float(lengths.mean()) if some else None,
        "eval_terminated": float(terminated.mean()) if some else None,
        "eval_unfinished": int((~finished).sum()),
        "policy_loss": float(evaluation.losses.policy),
        "value_loss": float(evaluation.losses.value),
        "entropy": float(evaluation.losses.entropy),
        "kl": float(evaluation.losses.kl),
        "clip_fraction": float(evaluation.losses.clip_fraction),
    }


def write_curve(path: pathlib.Path, run: Run) -> None:
    """Writes `rows` as CSV."""
    lines = rows(run)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


def draw_curve(path: pathlib.Path, run: Run, title: str, threshold: float | None = None) -> None:
    """Draws the mean return without exploration over the steps: a thin line per seed, their mean and its interval."""
    curve = jax.device_get(run.curve)
    count = int(run.iterations)
    returns = np.array([row["eval_return"] for row in rows(run)], np.float64).reshape(count, -1)
    figure = plot.curves((curve.steps[:count, 0], returns), threshold=threshold, title=title)
    figure.savefig(path, dpi=120)
