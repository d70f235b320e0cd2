"""Trained policies that ship with the library: a small file each, with its metrics and the command that trained it."""

import dataclasses
import pathlib

import jax
import jax.numpy as jnp

from jaxenv import data
from jaxenv._util.checks import check_choice, check_text
from jaxenv._util.names import did_you_mean
from jaxenv.training import _algorithms, presets
from jaxenv.training.trained import Trained, settings_of

_FOLDER = pathlib.Path(__file__).parent / "_baselines"
_FIGURES = ("steps", "eval_return", "eval_episodes", "eval_interval", "command")


@dataclasses.dataclass(frozen=True)
class Baseline(Trained):
    """A trained policy that ships with the library, as `baseline` reads it.

    Attributes:
        eval_episodes: number of whole episodes behind the mean ``eval_return``.
        eval_interval: the 95% bootstrap interval of this mean.
        command: the command that trained it. The policy comes from its best seed.
    """

    eval_episodes: int
    eval_interval: tuple[float, float]
    command: str


def baseline_ids() -> list[tuple[str, str]]:
    """Returns id and learner of every `baseline`, such as ``("CartPole-v1", "ppo")``."""
    names = [path.stem.rpartition("-") for path in _FOLDER.glob("*.npz")]
    return sorted((env_id, algorithm) for env_id, _, algorithm in names)


def baseline(env_id: str, algorithm: str | None = None) -> Baseline:
    """Loads a trained policy for an environment: to watch, to compare with, to start from.

    The learner is by default the first of ``"sac"``, ``"ppo"`` and ``"dqn"`` with a policy; for an id without one, the
    error lists the ids and learners that have one. Weights were rounded to float16 before they were evaluated; they are
    returned as float32.

    >>> import jax, jaxenv
    >>> best = jaxenv.training.baseline("CartPole-v1")  # doctest: +SKIP
    >>> env = best.make_env(num_envs=100)  # doctest: +SKIP
    >>> jaxenv.evaluate(env, best.policy, jax.random.key(0), initial_memory=best.memory)  # doctest: +SKIP
    """
    check_text("baseline", "env_id", env_id)
    if algorithm is not None:
        check_choice("baseline", "algorithm", algorithm, tuple(presets.PRESETS))
    known = baseline_ids()
    for name in presets.PRESETS if algorithm is None else [algorithm]:
        if (env_id, name) in known:
            return _read(_path(env_id, name))
    hint = did_you_mean(env_id, sorted({other for other, _ in known} - {env_id}))
    by = f" by {algorithm!r}" if algorithm is not None else ""
    listed = ", ".join(f"{other} ({name})" for other, name in known)
    raise ValueError(f"baseline: there is none{by} for {env_id!r}{f', {hint}' if hint else ';'} there are {listed}")


def write(env_id: str, found: Baseline) -> None:
    """Adds a policy to the library: its weights, rounded to float16, its statistics, and all else as plain data."""
    settings = {"algorithm": found.algorithm, **dataclasses.asdict(found.config), "num_seeds": 1, "seed": 0}
    figures = {name: getattr(found, name) for name in _FIGURES}
    halved = jax.tree.map(lambda x: jnp.asarray(x, jnp.float16), found.params)
    arrays = {"params": halved, "statistics": found.statistics}
    data.save(_path(env_id, found.algorithm), arrays, config={**settings, "figures": figures})


def _path(env_id: str, algorithm: str) -> pathlib.Path:
    return _FOLDER / f"{env_id}-{algorithm}.npz"


def _read(path: pathlib.Path) -> Baseline:
    info = data.checkpoint_info(path)
    algorithm, config, num_seeds = settings_of(path, info)
    learner = jax.eval_shape(_algorithms.module("baseline", algorithm).make_train(config).init, jax.random.key(0))
    halved = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float16), learner.params)
    found = data.restore(path, {"params": halved, "statistics": learner.statistics}, partial=True)
    figures = {name: info.config["figures"][name] for name in _FIGURES}
    figures["eval_interval"] = tuple(figures["eval_interval"])
    params = jax.tree.map(lambda x: x.astype(jnp.float32), found["params"])
    run = {"folder": path, "algorithm": algorithm, "config": config, "seed": 0, "num_seeds": num_seeds}
    return Baseline(**run, params=params, statistics=found["statistics"], **figures)
