"""A learner of one weight, for tests of what surrounds learners: it compiles in a moment, and its weight drifts."""

import contextlib
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import rollout, tree
from jaxenv.training import _algorithms
from jaxenv.training.config import RunConfig
from jaxenv.training.evaluation import Curve
from jaxenv.training.lanes import Train


@contextlib.contextmanager
def registered():
    """Makes the learner one of the library, under the name ``"drift"``."""
    _algorithms.MODULES["drift"] = "tests.training.drift"
    yield
    del _algorithms.MODULES["drift"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(RunConfig):
    """``nan_at`` is the evaluation after which ``nan_in``, ``"loss"`` or ``"weight"``, is NaN in some seeds."""

    env_id: str = "Catch-bsuite"
    total_steps: int = 400
    num_envs: int = 1
    num_evaluations: int = 4
    num_eval_episodes: int = 3
    sizes: tuple[int, ...] = (1,)
    recurrent: bool = False
    nan_at: int = tree.static(default=0, low=0)
    nan_in: str = "weight"
    cut: bool = False  # whether the last episode of every evaluation is cut off
    # Rounds of a loop that does nothing, in the last iteration: runs are interrupted there.
    work: int = tree.static(default=0, low=0)


@tree.struct
class Learner:
    params: Any
    statistics: Any
    key: jax.Array
    update: jax.Array


@tree.struct
class Losses:
    error: Any
    surprise: Any


def unlucky(params):
    """Whether a seed is one of those that turn NaN."""
    return params["first"] > 0.5


def make_train(config, env=None, eval_env=None):
    def init(key, hyperparameters=None):
        weight = jax.random.uniform(key)
        return Learner({"first": weight, "now": weight}, (), key, jnp.zeros((), jnp.int32))

    def iteration(learner):
        step = jax.random.normal(jax.random.fold_in(learner.key, learner.update))
        work = jnp.where(learner.update == config.num_evaluations - 1, config.work, 0)
        idle = jax.lax.fori_loop(0, work, lambda _, x: jnp.sin(x), step)
        update = learner.update + 1
        breaks = unlucky(learner.params) & (update == config.nan_at)
        spoiled = jnp.where(breaks, np.float32(np.nan), 0)
        now = learner.params["now"] + step + 0 * idle + (spoiled if config.nan_in == "weight" else 0)
        losses = Losses(now + (spoiled if config.nan_in == "loss" else 0), jnp.abs(step))
        returns = now + jnp.arange(config.num_eval_episodes, dtype=jnp.float32)
        ones = jnp.ones(config.num_eval_episodes, bool)
        train = {"return_mean": rollout.Statistic.where(update > 1, now)}
        finished = ones.at[-1].set(not config.cut)
        curve = Curve(update * 100, train, losses, returns, ones.astype(jnp.int32), ones, finished)
        return Learner({**learner.params, "now": now}, (), learner.key, update), curve

    return Train(config, init, iteration)


def make_policy(config, env, params, statistics=(), explore=False):
    """Always action 1; with ``recurrent`` the action is whether the number of the step in the episode is odd."""

    def policy(timestep, stream, memory):
        weights, count = memory
        action = count % 2 if config.recurrent else jnp.ones(timestep.step_type.shape, jnp.int32)
        return rollout.PolicyStep(action, (weights, count + 1 if config.recurrent else ()))

    return policy, (tree.Shared(params), jnp.zeros(env.num_envs, jnp.int32) if config.recurrent else ())
