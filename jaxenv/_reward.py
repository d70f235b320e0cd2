"""Rewards that replace the one on a row, and their specs: what reward wrappers and reward transformers share."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._bounds import bounds
from jaxenv._structure import is_array
from jaxenv.timestep import TimeStep


def with_reward(owner: str, timestep: TimeStep, reward: Any) -> TimeStep:
    """The rows ``[B]`` with ``reward`` (any numbers, ``[B]`` or ``[B, R]``) as float32, and 0 at FIRST.

    Raises:
        ValueError: if ``reward`` has another shape; the message starts with ``owner``.
    """
    if not is_array(reward):
        raise ValueError(f"{owner}: the reward must be an array, got {reward!r}")
    reward = jnp.asarray(reward, jnp.float32)
    lanes = timestep.step_type.shape
    if reward.ndim not in (1, 2) or reward.shape[:1] != lanes:
        raise ValueError(
            f"{owner}: the reward must have shape (lanes,) or (lanes, R) for {lanes[0]} lanes, got {reward.shape}"
        )
    first = tree.expand(timestep.is_first(), reward.ndim)
    return dataclasses.replace(timestep, reward=jnp.where(first, jnp.zeros_like(reward), reward))


def bounded_reward(spec: specs.Array, low: Any, high: Any) -> specs.Bounded:
    """The spec of a reward in [low, high] with the shape of ``spec``. Its bounds include 0, the reward at FIRST."""
    return specs.Bounded(spec.shape, np.float32, np.minimum(low, 0), np.maximum(high, 0), "reward")


def check_reward_spec(owner: str, spec: Any, found: specs.Array) -> specs.Array:
    """Checks the ``spec`` that a caller gives for a reward whose shape and dtype are those of ``found``.

    Raises:
        ValueError: if shape or dtype differ, or the bounds exclude 0, the reward at FIRST.
    """
    if not specs.is_spec(spec) or (spec.shape, spec.dtype) != (found.shape, found.dtype):
        raise ValueError(f"{owner}: spec must be that of a reward of shape {found.shape} and dtype float32, got {spec}")
    low, high = bounds(spec)
    if np.any(low > 0) or np.any(high < 0):
        raise ValueError(f"{owner}: spec must include 0, the reward of FIRST rows, got {spec}")
    return spec.replace(name="reward")
