"""Replacement of rewards and their specs, shared by reward wrappers and reward transformers."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core.timestep import TimeStep
from jaxenv.specs._bounds import bounds
from jaxenv.tree._structure import is_array


def with_reward(owner: str, timestep: TimeStep, reward: Any) -> TimeStep:
    """Puts ``reward`` (any numbers, ``[B]`` or ``[B, R]``, R > 1) on the rows ``[B]`` as float32, with 0 at FIRST.

    Raises:
        ValueError: if ``reward`` has another shape; the message starts with ``owner``.
    """
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
    """Checks the ``spec`` that a caller gives for a reward with the shape and dtype of ``found``.

    Raises:
        ValueError: if shape or dtype differ, or the bounds exclude 0, the reward at FIRST.
    """
    if not specs.is_spec(spec) or (spec.shape, spec.dtype) != (found.shape, found.dtype):
        raise ValueError(f"{owner}: spec must have shape {found.shape} and dtype float32, got {spec}")
    low, high = bounds(spec)
    if np.any(low > 0) or np.any(high < 0):
        raise ValueError(f"{owner}: spec must include 0, the reward of FIRST rows, got {spec}")
    return spec.replace(name="reward")
