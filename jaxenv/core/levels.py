"""Levels: what an episode starts in, as data that leads with the lanes ``[B]``."""

import jax
import jax.numpy as jnp

from jaxenv import random
from jaxenv.core import _checks, _start
from jaxenv.core._compiled import self_compiling
from jaxenv.core.environment import Environment, check_environment
from jaxenv.random import Stream
from jaxenv.tree import Tree


def sample_level(env: Environment, key: jax.Array, env_id: jax.Array | None = None) -> Tree:
    """Samples the levels in which ``env.reset(key, env_id)`` starts: leaves ``[B, ...]``.

    A level is what the task declares as its ``Level``, else the state in which its episode starts. Under
    ``ResampleParams`` it is a dict of ``"params"`` and ``"level"``, in a `Multitask` a tuple with one level per task.

    Args:
        env: any environment whose episodes start in JAX.
        key: one typed key, or ``Key[B]``.
        env_id: int32 ``[B]``, as for ``reset``.

    >>> import jaxenv
    >>> env = jaxenv.make("FrozenLake-v1", num_envs=3)
    >>> level = sample_level(env, jax.random.key(0))
    >>> state, timestep = env.reset(jax.random.key(1), level=level)
    """
    check_environment("sample_level", env)
    random.check_typed(key, "sample_level: key")
    if env_id is None:
        random.check_lane_keys(key, env.num_envs)
    else:
        env_id = _checks.lane_numbers(env_id)
    with _checks.explained("sample_level", env):
        return _sampled(env, key, env_id)


def mutate_level(env: Environment, level: Tree, key: jax.Array) -> Tree:
    """Edits each of the levels ``[B, ...]`` once at random, as its task declares by ``mutate_level``.

    Raises:
        ValueError: for a task without mutations, or levels that are not of ``env``.
    """
    check_environment("mutate_level", env)
    random.check_one("mutate_level", key)
    level = _start.of_levels("mutate_level", env, level).place
    with _checks.explained("mutate_level", env):
        mutated = _mutated(env, level, key)
    return _start.of_levels("mutate_level: the result", env, mutated).place


def refuse_given_levels(owner: str, env: Environment, hint: str) -> None:
    """Refuses an environment whose episodes start in given levels or states, where they would be dropped.

    Args:
        owner: who chooses the levels, the first word of the error.
        env: any environment.
        hint: what to do instead, the end of the error.

    Raises:
        ValueError: if ``env.with_level`` was called.
    """
    if any(isinstance(x, _start.Start) for x in jax.tree.leaves(env, is_leaf=lambda x: isinstance(x, _start.Start))):
        rule = "env must not start in levels of its own, which no episode would use"
        raise ValueError(f"{owner}: {rule}, {env} does: {hint}")


@self_compiling
def _sampled(env: Environment, key: jax.Array, env_id: jax.Array | None) -> Tree:
    if env_id is None:
        env_id = jnp.arange(key.shape[0] if key.ndim else env.num_envs, dtype=jnp.int32)
    env.check_lanes(env_id.shape[0])
    return env._new_level(env.lane_words(key, env_id), env_id, jnp.zeros_like(env_id))


@self_compiling
def _mutated(env: Environment, level: Tree, key: jax.Array) -> Tree:
    lanes = jnp.arange(jax.tree.leaves(level)[0].shape[0], dtype=jnp.int32)
    words = random.lane_words(key, lanes, salt="mutate_level")
    zero = jnp.zeros(lanes.shape, jnp.uint32)
    return env._mutated(level, Stream(*words, zero, zero))
