"""Several seeds of one run at once, iteration by iteration, with checkpoints, a table and a picture.

All seeds are one compiled function, under `jax.vmap` or in a loop, on the devices of one or of several processes. After
every iteration a folder holds all results so far. A run that was killed at any moment resumes from its last checkpoint,
bit for bit as if it had never stopped: every file is written under another name and then moved. From its first
iteration to its end a run has its folder for itself.
"""

import contextlib
import csv
import dataclasses
import functools
import json
import math
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import checks
from jaxenv._util.files import replacing
from jaxenv.canvas._films import write_film
from jaxenv.canvas._grid import Grid
from jaxenv.data import _processes
from jaxenv.rollout import plot
from jaxenv.rollout._film import Reel
from jaxenv.suites._host import HostEnvironment
from jaxenv.training import _algorithms, _checkpoints, lanes
from jaxenv.training._checkpoints import forget as forget
from jaxenv.training.config import RunConfig
from jaxenv.training.evaluation import Curve

_SIZE, _FPS, _MAX_STEPS = 192, 30, 1000  # of films


@tree.struct
class Run:
    """The state of a run of N seeds."""

    learner: Any  # the seeds' learners, leaves [N, ...]
    curve: Curve  # the evaluations, leaves [num_evaluations, N, ...]. Pending ones are NaN, -1 and False
    iterations: jax.Array  # int32[], the number of iterations so far


def train(
    config: RunConfig,
    num_seeds: int,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    threshold: float | None = None,
    film_every: int | None = None,
    checkpoint_every: int = 1,
    devices: int = 1,
    checkpoint_format: str | None = None,
    sequential: bool = False,
) -> Iterator[Run]:
    """Trains ``num_seeds`` seeds and yields the `Run` after each iteration; a complete run is yielded once.

    An iteration ends with an evaluation; there are ``config.num_evaluations``. The yielded arrays are donated to the
    next iteration: copy arrays that must outlive it.

    Args:
        config: the settings of the run; their class chooses the learner, such as ``ppo.Config()``.
        num_seeds: N, the number of seeds.
        seed: the seed of the key that is split into N keys.
        folder: a folder, created if missing. After each iteration it holds a checkpoint, ``config.json``,
            ``curve.csv`` (one line per seed and evaluation) and ``curve.png``.
        resume: continue from the checkpoint in the folder, if there is one.
        threshold: a return to mark in the picture.
        film_every: write a film of the policy, of the seed that is best at the time, after every N-th evaluation, as
            ``films/steps-S.gif`` in the folder. A thread writes it during training; the last iteration waits for it.
        checkpoint_every: write the checkpoint after every N-th evaluation and after the last one, for learners
            whose replay buffer makes it large.
        devices: how many devices share the run, over all processes. If they divide ``num_seeds`` they share the seeds,
            without communication; otherwise several devices share the lanes of each seed, and average gradients. On a
            CPU, ``jax.config.update("jax_num_cpu_devices", 2)`` before anything else makes two devices, a core each.
        checkpoint_format: ``"npz"`` for one file, ``checkpoint.npz``, for which the first process gathers all arrays;
            or ``"orbax"`` for a `jaxenv.data.Checkpointer` of the folder ``checkpoints/``, in which every process
            writes the arrays of its devices while the next iteration runs. By default the folder's, at first ``"npz"``.
        sequential: each device trains its seeds one after another, in one compiled function without `jax.vmap`. Under
            ``vmap`` every seed takes every branch that one seed needs, so this is faster on a CPU, with less memory,
            for environments with branches and loops, such as Box2D and mazes.

    Raises:
        ValueError: if another run writes to the folder; if the folder holds a run and ``resume`` is not set, or a run
            with another config, with checkpoints of another format, or of an environment outside JAX.
        FloatingPointError: while training, for a loss or a weight that is not finite, naming the seed.
        OSError: while training, if a file cannot be written. The folder keeps its last checkpoint. With ``"orbax"`` the
            error may come one iteration later.
    """
    checks.check_integer("train", "num_seeds", num_seeds, 1)
    checks.check_integer("train", "seed", seed, 0)
    checks.check_integer("train", "checkpoint_every", checkpoint_every, 1)
    checks.check_integer("train", "devices", devices, 1)
    checks.check_bool("train", "resume", resume)
    checks.check_bool("train", "sequential", sequential)
    if threshold is not None:
        checks.check_real("train", "threshold", threshold, -math.inf)
    if checkpoint_format is not None:
        checks.check_choice("train", "checkpoint_format", checkpoint_format, _checkpoints.FORMATS)
    folder = None if folder is None else checks.check_folder("train", "folder", folder)
    if resume and folder is None:
        raise ValueError("train: resume needs the folder of the run, got None")
    if jax.process_count() > 1 and devices != len(jax.devices()):
        raise ValueError(f"train: devices must be {len(jax.devices())}, the devices of all processes, got {devices}")
    if devices > len(jax.devices()):
        raise ValueError(f"train: devices must be at most {len(jax.devices())}, the devices of JAX, got {devices}")
    algorithm = _algorithms.name_of("train", config)
    make_train = _algorithms.module("train", algorithm).make_train
    if film_every is not None:
        checks.check_integer("train", "film_every", film_every, 1)
        if folder is None:
            raise ValueError("train: film_every needs a folder")
        film_env = config.make_env(mode="eval")
        jax.eval_shape(lambda key: film_env.render(film_env.reset(key)[0]), jax.random.key(0))  # has it a picture?
    groups = math.gcd(num_seeds, devices)  # groups of devices; each trains equally many seeds
    if sequential and groups < devices:
        rule = "sequential seeds need a number of devices that divides num_seeds"
        raise ValueError(f"train: {rule}, got {devices} devices for {num_seeds} seeds")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]).reshape(groups, -1), ("seeds", lanes.AXIS))
    run = make_train(config, mesh=mesh) if groups < devices else make_train(config)
    init, iteration = (_over_seeds(f, num_seeds, mesh, sequential) for f in (run.init, run.iteration))
    keys = jax.random.split(jax.random.key(seed), num_seeds)
    if folder is None:
        return _train(config, init, iteration, keys)
    named = {"algorithm": algorithm, **dataclasses.asdict(config), "num_seeds": num_seeds, "seed": seed}
    settings = json.loads(json.dumps(named))

    def write(run: Run) -> None:
        write_curve(folder / _checkpoints.CURVE, run)
        draw_curve(folder / _checkpoints.PICTURE, run, config.env_id, threshold)

    checkpoints = checkpoint_every, checkpoint_format, resume
    files = _checkpoints.RunFolder(folder, settings, write, *checkpoints, lambda: can_resume(config))
    files.check()
    runs = _train(config, init, iteration, keys, files)
    return runs if film_every is None else _filmed(runs, folder, config, film_every)


def can_resume(config: RunConfig) -> bool:
    """Returns whether a checkpoint holds the whole run: it does not if the lanes live outside JAX."""
    checks.check_kind("can_resume", "config", config, RunConfig)
    return not isinstance(config.make_env().unwrapped, HostEnvironment)


def _over_seeds(
    function: Callable[..., Any], num_seeds: int, mesh: jax.sharding.Mesh, sequential: bool
) -> Callable[..., Any]:
    """Maps a function of one seed over all seeds, without communication between the groups of devices."""
    if num_seeds == 1:  # no vmap: environments on the host cannot run under it
        return lambda x: jax.tree.map(lambda y: y[None], function(jax.tree.map(lambda y: jnp.squeeze(y, 0), x)))
    if mesh.shape[lanes.AXIS] > 1:
        return jax.vmap(function, spmd_axis_name="seeds")
    of_device = functools.partial(jax.lax.map, function) if sequential else jax.vmap(function)
    if mesh.size == 1:
        return of_device
    seeds = jax.sharding.PartitionSpec("seeds")
    return jax.shard_map(of_device, mesh=mesh, in_specs=seeds, out_specs=seeds, check_vma=False)


def _train(
    config: RunConfig,
    init: Callable[..., Any],
    iteration: Callable[..., Any],
    keys: jax.Array,
    files: _checkpoints.RunFolder | None = None,
) -> Iterator[Run]:
    start, advance = jax.jit(init), jax.jit(iteration, donate_argnums=0)
    learners, evaluations = advance.eval_shape(start.eval_shape(keys))  # the calls below trace nothing again
    curve = jax.tree.map(lambda x: jax.ShapeDtypeStruct((config.num_evaluations, *x.shape), x.dtype), evaluations)
    with files or contextlib.nullcontext():
        if files is not None and _checkpoints.newest(files.folder) is not None:
            shapes: Any = Run(learners, curve, tree.zeros(jax.ShapeDtypeStruct((), jnp.int32)))
            run = files.restore(shapes, start, keys)
        else:
            run = Run(start(keys), jax.tree.map(_unplayed, curve), jax.device_put(np.int32(0)))
        if int(run.iterations) == config.num_evaluations:
            yield run
        for number in range(int(run.iterations), config.num_evaluations):
            learner, evaluation = advance(run.learner)
            evaluation = _processes.gathered(evaluation)
            _check_finite({"loss": evaluation.losses, "weights": learner.params}, number + 1, config.num_evaluations)
            _warn_of_cut_episodes(evaluation.finished, number + 1, config.num_evaluations)
            with jax.debug_nans(False):  # pending evaluations are NaN on purpose
                curve = _written(run.curve, evaluation, np.int32(number))
            run = Run(learner, curve, jax.device_put(np.int32(number + 1)))
            if files is not None:
                files.save(run, config.num_evaluations)
            yield run


def _unplayed(shape: jax.ShapeDtypeStruct) -> jax.Array:
    """Fills the pending evaluations of a curve."""
    fill: Any = {"f": np.nan, "i": -1}.get(np.dtype(shape.dtype).kind, 0)
    return jax.device_put(np.full(shape.shape, fill, shape.dtype))


@jax.jit
def _written(curve: Curve, evaluation: Curve, number: jax.Array) -> Curve:
    """Writes an evaluation into the curve, in one program for all leaves."""
    return jax.tree.map(lambda x, new: jax.lax.dynamic_update_index_in_dim(x, new, number, 0), curve, evaluation)


def _warn_of_cut_episodes(finished: jax.Array, number: int, of: int) -> None:
    """Counts the episodes of an evaluation that were cut off, bool ``[N, num_eval_episodes]``."""
    if cut := np.count_nonzero(~np.asarray(finished)):
        where = f"{cut} of {finished.size} episodes of evaluation {number} of {of}"
        reason = "by max_eval_steps or at a non-finite row"
        warnings.warn(f"train: {where} were cut off and are left out, {reason}", stacklevel=3)


def _check_finite(learned: dict[str, Any], number: int, of: int) -> None:
    """Raises a ``FloatingPointError`` that names the first seed, and all its leaves, that are NaN or infinite."""
    floats = [
        (tree.path_name(path).replace(".", " ", 1), x)
        for path, x in jax.tree.flatten_with_path(learned)[0]
        if jnp.issubdtype(x.dtype, jnp.floating)
    ]
    # On the host: a program that checks every leaf takes half a second to compile.
    arrays = jax.device_get(_processes.gathered([x for _, x in floats]))
    finite = np.array([np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in arrays])  # [leaves, N]
    if finite.all():
        return
    seed = int(np.argmin(finite.all(axis=0)))
    names = [name for (name, _), is_finite in zip(floats, finite[:, seed], strict=True) if not is_finite]
    listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    where = f"seed {seed} of {finite.shape[1]} is not finite at evaluation {number} of {of}"
    raise FloatingPointError(f"train: {where}: {listed}")


def rows(run: Run) -> list[dict[str, Any]]:
    """Returns the curve so far: one dict of scalars per seed and evaluation.

    ``train_return`` is the mean return of the exploring episodes that ended since the previous evaluation, in the
    rewards of the training stack (``None`` where none ended). ``eval_return`` is the mean return of whole episodes
    without exploration, in the environment's own rewards, followed by its standard error. Episodes that were cut off
    count in ``eval_unfinished`` alone. With `jaxenv.wrappers.Trials` these are trials, ``train_first_return`` is the
    mean return of their first episodes, and ``train_gain`` how much more their last ones return. The losses are the
    fields of the learner's ``Losses``.
    """
    checks.check_kind("rows", "run", run, Run)
    curve = jax.device_get(run.curve)
    return [
        _row(jax.tree.map(lambda x: x[number, seed], curve), seed)  # noqa: B023
        for number in range(int(run.iterations))
        for seed in range(curve.steps.shape[1])
    ]


def _row(evaluation: Curve, seed: int) -> dict[str, Any]:
    finished: Any = evaluation.finished
    returns, lengths, terminated = (
        np.asarray(x)[finished].astype(np.float64)
        for x in (evaluation.returns, evaluation.lengths, evaluation.terminated)
    )
    some, several = returns.size > 0, returns.size > 1
    trained = {"train_return": float(evaluation.train["return_mean"])}
    if "trial.first_return" in evaluation.train:
        first, last = (float(evaluation.train[f"trial.{which}_return"]) for which in ("first", "last"))
        trained |= {"train_first_return": first, "train_gain": last - first}
    return {
        "steps": int(evaluation.steps),
        "seed": seed,
        **{name: x if np.isfinite(x) else None for name, x in trained.items()},
        "eval_return": float(returns.mean()) if some else None,
        "eval_standard_error": float(returns.std(ddof=1) / np.sqrt(returns.size)) if several else None,
        "eval_length": float(lengths.mean()) if some else None,
        "eval_terminated": float(terminated.mean()) if some else None,
        "eval_unfinished": int((~finished).sum()),
        **{name: float(loss) for name, loss in vars(evaluation.losses).items()},
    }


def write_curve(path: pathlib.Path, run: Run) -> None:
    """Writes `rows` as CSV."""
    path = checks.check_path("write_curve", "path", path)
    checks.check_kind("write_curve", "run", run, Run)
    lines = rows(run)
    with replacing(path) as file, file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


def draw_curve(path: pathlib.Path, run: Run, title: str, threshold: float | None = None) -> None:
    """Draws the mean return of evaluations over the steps: a thin line per seed, their mean and its interval."""
    path = checks.check_path("draw_curve", "path", path)
    checks.check_kind("draw_curve", "run", run, Run)
    curve = jax.device_get(run.curve)
    count = int(run.iterations)
    returns = np.array([row["eval_return"] for row in rows(run)], np.float64).reshape(count, -1)
    figure = plot.curves((curve.steps[:count, 0], returns), threshold=threshold, title=title)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png")


# --- films -----------------------------------------------------------------------------------------------------------


def _filmed(runs: Iterator[Any], folder: pathlib.Path, config: RunConfig, every: int) -> Iterator[Any]:
    """Yields the iterations of a run and films every ``every``-th; returns when the last film is written."""
    films = _RunFilms(folder, config)
    with ThreadPoolExecutor(1, "jaxenv-run-films") as thread:
        for run in runs:
            number = int(run.iterations)
            if number % every == 0:
                thread.submit(films.write, *_best_of(run.learner, jax.device_get(run.curve), number - 1))
            yield run


def _best_of(learner: Any, curve: Any, number: int) -> tuple[int, Any, Any]:
    """Returns steps, weights and statistics of the best seed of evaluation ``number``, from the values of all seeds."""
    returns = np.where(curve.finished[number], curve.returns[number], np.nan)
    means = [x[~np.isnan(x)].mean(dtype=np.float64) if not np.isnan(x).all() else -np.inf for x in returns]
    best = int(np.argmax(means))
    # Training donates its arrays to the next iteration, so the weights are copied.
    params, statistics = jax.tree.map(lambda x: np.array(x[best]), (learner.params, learner.statistics))
    return int(curve.steps[number, best]), params, statistics


class _RunFilms:
    """Writes a GIF of one episode for each given policy."""

    def __init__(self, folder: pathlib.Path, config: RunConfig):
        self._folder, self._config = folder / "films", config
        self._reel: Reel | None = None
        self._make_policy = _algorithms.module("train", _algorithms.name_of("train", config)).make_policy

    def write(self, steps: int, params: Any, statistics: Any) -> None:
        """Writes the film of the policy after ``steps``; a film that fails is a warning, and the training goes on."""
        try:
            env = self._config.make_env(mode="eval")
            policy, memory = self._make_policy(self._config, env, params, statistics)
            self._reel = self._reel or Reel("train", env, policy, (_SIZE, _SIZE), max_steps=_MAX_STEPS)
            self._folder.mkdir(exist_ok=True)
            path, grid = self._folder / f"steps-{steps:08d}.gif", Grid((_SIZE, _SIZE), 1, True)
            write_film(path, (grid.frame(last := one) for one in self._reel.play(jax.random.key(0), memory)), _FPS)
            if not last.over.all():
                warnings.warn(f"train: {path.name} ends after {_MAX_STEPS:,} steps, its episode does not", stacklevel=1)
        except Exception as fault:
            warnings.warn(f"train: the film after {steps:,} steps is not written: {fault}", stacklevel=1)
