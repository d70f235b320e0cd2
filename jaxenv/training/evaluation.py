"""What all learners need around their updates: the two environments, evaluations and the learning curve."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import rollout, tree
from jaxenv._util.checks import INT32_MAX, check_bool
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.wrapper import layers
from jaxenv.data import transformers
from jaxenv.training.config import RunConfig, check_config
from jaxenv.training.lanes import Lanes
from jaxenv.tree import _export
from jaxenv.tree._structure import mismatch
from jaxenv.wrappers import BatchWrapper, stack


@_export.named_tuple
class Curve(NamedTuple):
    """The evaluations of a run, ``[num_evaluations]`` each.

    Attributes:
        steps: int32, the number of rows of all lanes so far.
        train: metrics of `rollout.Metrics` over the episodes that ended since the previous evaluation, with the rewards
            of the training stack.
        losses: the learner's ``Losses``, averaged over all minibatches since the previous evaluation.
        returns: float32 ``[num_evaluations, num_eval_episodes]``, of whole episodes; NaN where one was cut off.
        lengths: int32, same shape; -1 where the episode was cut off.
        terminated: bool, same shape, whether the task ended the episode.
        finished: bool, same shape; False where ``max_eval_steps`` or a non-finite row cut the episode off.
    """

    steps: jax.Array
    train: dict[str, Any]
    losses: Any
    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    finished: jax.Array


def environments(
    name: str, kind: type[RunConfig], config: RunConfig, env: Environment | None, eval_env: Environment | None
) -> tuple[Environment, Environment]:
    """The stacks to train and to evaluate on: those given, or those of ``config.env_id``.

    Args:
        name: the name of the learner, for errors.
        kind: the class of its settings.
        config: the settings of the run.
        env: a stack with ``config.num_envs`` lanes and ``next_step`` restarts.
        eval_env: a stack whose number of lanes divides ``config.num_eval_episodes``.

    Raises:
        ValueError: if the config is not that of a learner, if one of the two is missing, or if they do not fit the
            settings or each other.
    """
    check_config(name, config, kind)
    if env is None and eval_env is None:
        env = config.make_env(config.num_envs)
        eval_env = config.make_env(config.num_eval_episodes, "eval")
    if env is None or eval_env is None:
        raise ValueError(f"{name}: env and eval_env must be given together")
    check_environment(name, env)
    check_environment(name, eval_env, "eval_env")
    if env.autoreset != "next_step":
        raise ValueError(f"{name}: env must restart lanes by autoreset='next_step', got {env.autoreset!r} in {env}")
    if env.num_envs != config.num_envs:
        raise ValueError(f"{name}: config.num_envs is {config.num_envs}, {env} has {env.num_envs} lanes")
    for spec in ("observation_spec", "action_spec"):
        ours, theirs = getattr(env, spec)(), getattr(eval_env, spec)()
        if ours != theirs:
            raise ValueError(f"{name}: env and eval_env must have the same {spec}, got {ours} and {theirs}")
    for made in (env, eval_env):
        if made.reward_spec().shape != ():
            raise ValueError(f"{name}: the reward must be one number per lane, got {made.reward_spec()} of {made}")
    for level in layers(eval_env):
        if isinstance(level, BatchWrapper) and "observation" in level.owns:
            raise ValueError(f"{name}: evaluation cannot share the statistics of {level}, set normalize_observation")
    if found := next(stack.training_only(eval_env), None):
        rule = f"eval_env must not have {type(found).__name__}, which is for training"
        raise ValueError(f"{name}: {rule}: jaxenv.make(..., mode='eval') makes it, got {eval_env!r}")
    return env, eval_env


def check_acting(name: str, kind: type[RunConfig], config: Any, env: Any, explore: Any) -> None:
    """Raises a ``ValueError`` unless these are arguments of ``make_policy`` of the learner ``name``."""
    check_config(name, config, kind)
    check_environment(name, env)
    check_bool(name, "explore", explore)


def check_learned(name: str, config: RunConfig, env: Environment, expected: Any, params: Any, statistics: Any) -> None:
    """Raises a ``ValueError`` unless weights and statistics are those of one seed, for the observations of ``env``.

    Args:
        name: the name of the learner, for errors.
        config: the settings of the run.
        env: the stack to act in.
        expected: the shapes of the weights.
        params: the weights.
        statistics: the statistics of the observations, ``()`` for none.
    """
    if config.normalize_observation and isinstance(statistics, tuple):
        raise ValueError(f"{name}: the config normalises observations: pass statistics=learner.statistics")
    if (difference := mismatch(expected, params, "params")) is not None:
        raise ValueError(f"{name}: {difference}")
    for (path, leaf), given in zip(tree.flatten_with_path(expected)[0], jax.tree.leaves(params), strict=True):
        if given.shape != leaf.shape:
            if given.shape[1:] == leaf.shape:
                raise ValueError(
                    f"{name}: params are the weights of {given.shape[0]} seeds: choose one of params and statistics, "
                    "for example by jax.tree.map(lambda x: x[0], learner.params)"
                )
            raise ValueError(
                f"{name}: params.{tree.path_name(path)} must have shape {leaf.shape} for {env} and this config, got "
                f"{given.shape}: config.make_env(num_envs, 'eval') makes the stack with the config's wrappers"
            )


def normalizer(config: RunConfig, axis_name: str | None = None) -> Any:
    """The transformer through which policy and learner see observations, with statistics over a mesh axis."""
    if not config.normalize_observation:
        return transformers.Identity()
    return transformers.ObservationNormalizer(clip=10.0, axis_name=axis_name)


def evaluate(
    config: RunConfig,
    env: Environment,
    policy: Callable,
    memory: Any,
    statistics: Any,
    key: jax.Array,
    lanes: Lanes,
) -> dict[str, jax.Array]:
    """Plays ``config.num_eval_episodes`` whole episodes; returns the last four fields of a `Curve`.

    Args:
        config: the settings of the run.
        env: the stack to evaluate on.
        policy: ``policy(timestep, stream, memory)``, or without the memory if it has none.
        memory: its memory at the start of an episode, ``()`` for none.
        statistics: the statistics of the observations.
        key: a typed key.
        lanes: which lanes of ``env`` this device plays, the same number of episodes in each.
    """
    _, timestep = lanes.of(env).start_shapes()
    policy, memory = normalizer(config).frozen().wrap_policy(policy, timestep, memory, state=statistics)
    env_id = lanes.numbers(env)
    env, num_episodes = lanes.of(env), lanes.share("num_eval_episodes")
    rows = None
    if config.max_eval_steps is not None:  # a restart takes a row, too
        rows = min(num_episodes // env.num_envs * (config.max_eval_steps + 1) - 1, INT32_MAX)
    episodes = rollout.evaluate(
        env,
        policy,
        key,
        num_episodes,
        initial_memory=memory,
        max_steps=rows,
        env_id=env_id,
    )
    finished = episodes.finished & ~episodes.abnormal
    return {
        "returns": jnp.where(finished, episodes.returns, np.float32(np.nan)),
        "lengths": jnp.where(finished, episodes.lengths, np.int32(-1)),
        "terminated": episodes.terminated & finished,
        "finished": finished,
    }
