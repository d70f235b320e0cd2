"""Rewards made of whole rows, and bounds that hold on all of them."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.timestep import TimeStep
from jaxenv.wrapper import Wrapper


class RowRewardWrapper(Wrapper):
    """Makes the reward of a row from the whole row. Write ``reward_of_row``. At FIRST the reward stays 0.

    Owns ``reward``.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})

    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        """The new reward for a batch of rows: ``[B]`` or ``[B, R]``, of any kind of number."""
        raise NotImplementedError(f"{type(self).__name__}.reward_of_row")

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, previous)
        return state, self._paid(timestep)

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        return state, self._paid(timestep)

    def _paid(self, timestep: TimeStep) -> TimeStep:
        return with_reward(type(self).__name__, timestep, self.reward_of_row(timestep))


def with_reward(owner: str, timestep: TimeStep, reward: Any) -> TimeStep:
    """The rows ``[B]`` with another reward, any kind of number ``[B]`` or ``[B, R]``, as float32 and 0 at FIRST."""
    reward = jnp.asarray(reward, jnp.float32)
    lanes = timestep.step_type.shape
    if reward.ndim not in (1, 2) or reward.shape[:1] != lanes:
        raise ValueError(
            f"{owner}: the reward must have shape (lanes,) or (lanes, R) for {lanes[0]} lanes, got {reward.shape}"
        )
    first = tree.expand(timestep.is_first(), reward.ndim)
    return dataclasses.replace(timestep, reward=jnp.where(first, jnp.zeros_like(reward), reward))


def bounds(spec: specs.Array) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of a reward in the spec's shape, infinite where none are known."""
    if isinstance(spec, specs.Bounded):
        return spec.minimum, spec.maximum
    return np.full(spec.shape, np.float32(-np.inf)), np.full(spec.shape, np.float32(np.inf))


def bounded(spec: specs.Array, low: Any, high: Any) -> specs.Bounded:
    """The spec of a reward in the shape of ``spec`` that lies in [low, high], or is 0 as on FIRST rows."""
    return specs.Bounded(spec.shape, np.float32, np.minimum(low, 0), np.maximum(high, 0), "reward")


def stated(owner: str, spec: specs.Array, found: specs.Array) -> specs.Array:
    """The spec that a caller states for a reward of which shape and dtype were found.

    Raises:
        ValueError: unless it has them, and its bounds hold 0, which FIRST rows show.
    """
    if not specs.is_spec(spec) or (spec.shape, spec.dtype) != (found.shape, found.dtype):
        raise ValueError(f"{owner}: spec must be one of shape {found.shape} and float32 as the reward is, got {spec}")
    low, high = bounds(spec)
    if np.any(low > 0) or np.any(high < 0):
        raise ValueError(f"{owner}: spec must hold 0, the reward of FIRST rows, got {spec}")
    return spec.replace(name="reward")
