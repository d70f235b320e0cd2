"""Policies of finished or running training runs, read from the folder of the run."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxenv import data, specs, tree
from jaxenv._util import version
from jaxenv._util.checks import check_integer, check_path, is_integer
from jaxenv._util.names import did_you_mean
from jaxenv.core import Environment, TimeStep, registry
from jaxenv.random import Stream
from jaxenv.rollout import Policy
from jaxenv.training import _algorithms, _checkpoints


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained policy, as `load` reads it, for `jaxenv.unroll`, `jaxenv.evaluate` and `jaxenv.record`.

    Attributes:
        folder: the folder of the run.
        algorithm: the name of the learner, such as ``"ppo"``.
        config: the settings of the run.
        seed: the number of the seed, from 0.
        num_seeds: how many seeds the run has.
        steps: environment steps that it was trained for.
        eval_return: its mean return at the last evaluation; NaN where no episode finished.
        params: the weights.
        statistics: the statistics of the observations, ``()`` if they are not normalised.
    """

    folder: pathlib.Path
    algorithm: str
    config: Any
    seed: int
    num_seeds: int
    steps: int
    eval_return: float
    params: Any = dataclasses.field(repr=False)
    statistics: Any = dataclasses.field(repr=False)

    def make_env(self, num_envs: int | None = None, **options: Any) -> Environment:
        """Makes the environment in which the run was evaluated, by default with the lanes of one game.

        ``options`` of `jaxenv.make` are params of the physics, ``max_episode_steps`` and others. By default they and
        the wrappers come from the run.
        """
        if own := options.keys() & {"wrappers", "mode"}:
            raise ValueError(f"make_env: {sorted(own)[0]} is fixed by the run, leave it out")
        return self.config.make_env(num_envs, "eval", **options)

    @property
    def policy(self) -> Policy:
        """``policy(timestep, stream, memory)`` without exploration: the best actions ``[B, ...]``.

        It raises a ``ValueError`` for observations of another environment.
        """
        return self._policies[0]

    @property
    def explore(self) -> Policy:
        """``policy(timestep, stream, memory)`` with exploration, as in training."""
        return self._policies[1]

    @property
    def memory(self) -> Any:
        """The ``initial_memory`` of both policies, for any number of lanes: weights and statistics.

        Raises a ``ValueError`` for a policy with a memory per lane (a GRU, the noise of `sac`): see `make_memory`.
        """
        memory = self._policies[2]
        if any(not tree.is_shared(x) for x in jax.tree.leaves(memory, is_leaf=tree.is_shared)):
            raise ValueError("memory: the policy has a memory per lane, call make_memory(num_envs)")
        return memory

    def make_memory(self, num_envs: int = 1) -> Any:
        """Makes the ``initial_memory`` of both policies for some lanes: weights, statistics, memory per lane."""
        check_integer("make_memory", "num_envs", num_envs, 1)

        def for_all_lanes(x: Any) -> Any:  # every lane starts with equal memory
            return x if tree.is_shared(x) else jax.numpy.repeat(x[:1], num_envs, axis=0)

        return jax.tree.map(for_all_lanes, self._policies[2], is_leaf=tree.is_shared)

    @functools.cached_property
    def _policies(self) -> tuple[Policy, Policy, Any]:
        """Both policies, and their memory for the lanes of one game."""
        env = self.make_env()
        make = functools.partial(
            _algorithms.module("load", self.algorithm).make_policy, self.config, env, self.params, self.statistics
        )
        checked = functools.partial(self._checked, env.observation_spec())
        policy, memory = make()
        return checked(policy), checked(make(explore=True)[0]), memory

    def _checked(self, spec: Any, policy: Policy) -> Policy:
        """Makes the policy refuse, when it is traced, observations whose shape differs from ``spec``."""

        def checked(timestep: TimeStep, stream: Stream, memory: Any) -> Any:
            shown = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), timestep.observation)
            if not specs.contains(spec, shown):
                got = specs.from_array(timestep.observation, from_dim=1)
                rule = f"the observation must be {self.config.env_id}'s, as make_env makes it, {spec}"
                raise ValueError(f"policy of {self.algorithm}: {rule}, got {got}")
            return policy(timestep, stream, memory)

        return checked


def load(folder: str | os.PathLike[str], seed: int | None = None, modules: Sequence[str] = ()) -> Trained:
    """Loads the policy of a folder that ``jaxenv train`` or `jaxenv.training.seeds.train` wrote.

    The run may still be in progress: its newest checkpoint is read, which must be of this version. The folder cannot
    cause an import of other code.

    Args:
        folder: the folder.
        seed: the number of a seed of the run, from 0. By default the one with the best mean return at the last
            evaluation; the first of equal ones.
        modules: modules to import first, such as ``["my_package.tasks"]``, which register environments, wrappers or
            models of memory.

    >>> import jax, jaxenv
    >>> trained = jaxenv.training.load("runs/cart_pole")  # doctest: +SKIP
    >>> env = trained.make_env(num_envs=6, gravity=5.0)  # doctest: +SKIP
    >>> jaxenv.record(env, trained.policy, "cart.gif", initial_memory=trained.make_memory(6))  # doctest: +SKIP
    """
    folder = check_path("load", "folder", folder)
    if not folder.is_dir():
        runs = [path.parent.name for path in folder.parent.glob(f"*/{_checkpoints.CONFIG}")]
        hint = did_you_mean(folder.name, runs, otherwise="`jaxenv train ID` writes a run to runs/ID")
        raise ValueError(f"load: there is no folder {str(folder)!r}, {hint}")
    path = _checkpoints.newest(folder)
    if path is None:
        started = (folder / _checkpoints.CONFIG).exists()
        reason = "no checkpoint yet, wait for the first evaluation" if started else "no run of jaxenv train"
        raise ValueError(f"load: {folder} holds {reason}")
    info = data.checkpoint_info(path)
    # Before the settings are read: a module may add a model of memory.
    registry.check_from_data("load", str(_settings(info).get("env_id")), modules)
    algorithm, config, num_seeds = settings_of(path, info)
    if seed is not None and not (is_integer(seed) and 0 <= seed < num_seeds):
        raise ValueError(f"load: seed must be at least 0 and below {num_seeds}, the seeds of the run, got {seed!r}")
    found = _restored(path, info, _algorithms.module("load", algorithm).make_train(config).init, num_seeds)
    curve, last = found["curve"], int(found["iterations"]) - 1
    means = [
        float(returns[finished].mean(dtype=np.float64)) if finished.any() else float("nan")
        for returns, finished in zip(curve["returns"][last], curve["finished"][last], strict=True)
    ]
    chosen = int(np.argmax(np.nan_to_num(means, nan=-np.inf))) if seed is None else int(seed)
    params, statistics = jax.tree.map(lambda x: x[chosen], (found["learner"]["params"], found["learner"]["statistics"]))
    steps = int(curve["steps"][last, chosen])
    return Trained(folder, algorithm, config, chosen, num_seeds, steps, means[chosen], params, statistics)


def settings_of(path: pathlib.Path, info: data.CheckpointInfo) -> tuple[str, Any, int]:
    """Returns the algorithm, the config and the number of seeds of a checkpoint."""
    settings = _settings(info)
    algorithm, num_seeds = settings.pop("algorithm", None), settings.pop("num_seeds", None)
    for name in ("seed", "figures"):
        settings.pop(name, None)
    origin = _origin(path, info)
    if algorithm not in _algorithms.MODULES or not is_integer(num_seeds):
        known = " or ".join(_algorithms.MODULES)
        raise ValueError(f"{origin}: its config must name the learner, {known}, got {algorithm!r}")
    cls = _algorithms.module("load", algorithm).Config
    if unknown := sorted(settings.keys() - {field.name for field in dataclasses.fields(cls)}):
        raise ValueError(f"{origin}: there is no setting {unknown[0]!r}")
    return algorithm, cls(**settings), num_seeds


def _settings(info: data.CheckpointInfo) -> dict[str, Any]:
    return dict(info.config) if isinstance(info.config, dict) else {}


def _restored(
    path: pathlib.Path, info: data.CheckpointInfo, init: Callable[..., Any], num_seeds: int
) -> dict[str, Any]:
    """Restores weights, statistics and the curve of all seeds."""
    learner = jax.eval_shape(init, jax.random.key(0))
    weights = {"params": learner.params, "statistics": learner.statistics}
    shapes = {name: np.empty(shape, dtype) for name, dtype, shape in info.leaves if name.startswith(("curve.", "iter"))}
    names = ("returns", "finished", "steps")
    if "iterations" not in shapes or any(f"curve.{name}" not in shapes for name in names):
        raise ValueError(f"load: {path} is not the checkpoint of a run")
    like = {
        "learner": jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_seeds, *x.shape), x.dtype), weights),
        "curve": {name: shapes[f"curve.{name}"] for name in names},
        "iterations": shapes["iterations"],
    }
    try:
        return data.restore(path, like, partial=True)
    except ValueError as fault:
        raise ValueError(f"{_origin(path, info)}: {fault}") from None


def _origin(path: pathlib.Path, info: data.CheckpointInfo) -> str:
    """Returns the beginning of errors about a run that does not fit this version, or whose files were changed."""
    if info.jaxenv_version == version.__version__:
        return f"load: {path} is damaged, was changed, or is of another build of jaxenv {version.__version__}"
    return f"load: {path} was written by jaxenv {info.jaxenv_version}, this is {version.__version__}"
