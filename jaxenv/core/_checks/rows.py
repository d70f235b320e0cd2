"""Rules for what wrappers and transformers put on rows, and how they put it there."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_callable
from jaxenv.core.timestep import TimeStep, check_timestep
from jaxenv.tree import Tree
from jaxenv.tree._structure import is_array


def with_reward(owner: str, timestep: TimeStep, reward: Any) -> TimeStep:
    """Puts ``reward`` (any numbers, ``[B]`` or ``[B, R]``, R > 1) on the rows ``[B]`` as float32, with 0 at FIRST."""
    reward = checked_reward(owner, reward, timestep.step_type.shape)
    first = tree.expand(timestep.is_first(), reward.ndim)
    return dataclasses.replace(timestep, reward=jnp.where(first, jnp.zeros_like(reward), reward))


def checked_reward(owner: str, reward: Any, lanes: tuple[int, ...]) -> jax.Array:
    """Returns rewards as float32; raises a ``ValueError`` unless they are ``[B]``, or ``[B, R]`` with R > 1.

    A column ``[B, 1]`` is a mistake: it would broadcast with ``[B]`` to ``[B, B]``.
    """
    if not is_array(reward):
        raise ValueError(f"{owner}: the reward must be an array, got {reward!r}")
    shape = jnp.shape(reward)
    if shape[:1] != lanes or shape[2:] or shape[1:] in ((0,), (1,)):
        rule = f"({lanes[0]},), or ({lanes[0]}, R) with R of at least 2 for a vector reward"
        raise ValueError(f"{owner}: the reward must have shape {rule}, got {shape}")
    return jnp.asarray(reward, jnp.float32)


def bounded_reward(spec: specs.Array, low: Any, high: Any) -> specs.Bounded:
    """Returns a reward spec in [low, high] with the shape of ``spec``. The bounds include 0, the reward at FIRST."""
    return specs.Bounded(spec.shape, np.float32, np.minimum(low, 0), np.maximum(high, 0), "reward")


def check_reward_spec(owner: str, spec: Any, found: specs.Array) -> specs.Array:
    """Checks the ``spec`` that a caller gives for a reward with the shape and dtype of ``found``."""
    if not specs.is_spec(spec) or (spec.shape, spec.dtype) != (found.shape, found.dtype):
        raise ValueError(f"{owner}: spec must have shape {found.shape} and dtype float32, got {spec}")
    low, high = specs.bounds(spec)
    if np.any(low > 0) or np.any(high < 0):
        raise ValueError(f"{owner}: spec must include 0, the reward of FIRST rows, got {spec}")
    return spec.replace(name="reward")


def map_observation(fn: Callable[[Tree], Tree], timestep: TimeStep) -> TimeStep:
    """Applies ``fn`` to the observation and to ``env_info["final_observation"]``, which only ``same_step`` mode has.

    ``fn`` maps an observation ``[B, ...]``, or its specs; ``timestep`` holds rows ``[B]``, or their specs.
    """
    check_callable("map_observation", "fn", fn)
    check_timestep("map_observation", "timestep", timestep)
    env_info = timestep.env_info
    if "final_observation" in env_info:
        env_info = {**env_info, "final_observation": fn(env_info["final_observation"])}
    return dataclasses.replace(timestep, observation=fn(timestep.observation), env_info=env_info)


def check_owned(wrapper: Any, given: TimeStep, row: TimeStep) -> None:
    """Raises a ``ValueError`` at trace time if ``row`` differs from ``given`` in a field that the wrapper does not own.

    A wrapper that owns the observation also owns ``env_info["final_observation"]``.
    """
    for field in dataclasses.fields(TimeStep):
        before, after = (getattr(t, field.name) for t in (given, row))
        if field.name == "env_info" and "observation" in wrapper.owns:
            before, after = ({**entries, "final_observation": ()} for entries in (before, after))
        before, after = jax.tree.leaves(before), jax.tree.leaves(after)
        same = len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
        if not same and field.name not in wrapper.owns:
            fault = f"it changes {field.name} and owns {', '.join(sorted(wrapper.owns)) or 'nothing'}"
            raise ValueError(f"{type(wrapper).__name__}.after: {fault}: add {field.name!r} to owns")


def checked_observation(owner: str, observation: Tree, num_lanes: int) -> Tree:
    """Returns the observation of ``owner``; raises a ``ValueError`` unless its leaves are arrays of all lanes."""
    leaves = jax.tree.flatten_with_path(observation)[0]
    if not leaves:
        raise ValueError(f"{owner} must return an array or a tree of arrays, got {observation!r}")
    for path, x in leaves:
        name = tree.path_name(path) or "the observation"
        if not is_array(x):
            raise ValueError(f"{owner} must return arrays, got {x!r} for {name}")
        if jnp.shape(x)[:1] != (num_lanes,):
            rule = f"must return arrays that lead with the {num_lanes} lanes"
            raise ValueError(f"{owner} {rule}, got shape {jnp.shape(x)} for {name}")
    return observation
