"""The base of transformers that map the reward."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv._bounds import mapped_spec
from jaxenv._reward import with_reward
from jaxenv.data.transformers.base import RowTransformer
from jaxenv.timestep import TimeStep


class RewardTransformer(RowTransformer):
    """Maps the reward, but never at FIRST, where it stays 0. Write ``reward``, and ``reward_spec`` for its bounds.

    ALF's reward transformers map FIRST rows as well, so that a shift pays for the start of an episode.
    """

    def reward(self, reward: jax.Array) -> Any:
        """The new reward for a batch of old ones, ``[B]`` or ``[B, R]``; cast to float32."""
        raise NotImplementedError(f"{type(self).__name__}.reward")

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        """The spec of one lane's new reward. By default the shape of what ``reward`` returns, without bounds."""
        found = mapped_spec(lambda x: jnp.asarray(self.reward(x), jnp.float32), spec, lanes=2)
        return found.replace(name="reward")

    def rows(self, timestep):
        name = type(self).__name__
        return with_reward(name, timestep, self.reward(present(name, timestep)))

    def transform_spec(self, spec):
        return dataclasses.replace(spec, reward=self.reward_spec(spec.reward))


def present(owner: str, timestep: TimeStep) -> jax.Array:
    """The reward of rows, which must be there."""
    if isinstance(timestep.reward, tuple):
        raise ValueError(f"{owner}: the rows hold no reward, keep it in unroll(fields=...)")
    return timestep.reward


def check_components(owner: str, name: str, value: Any) -> None:
    """Refuses what is neither a finite number nor a sequence of them, one per component of a vector reward."""
    try:
        numbers = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if isinstance(value, bool) or numbers.ndim > 1 or not np.all(np.isfinite(numbers)):
        raise ValueError(f"{owner}: {name} must be a finite number, or one per component of the reward, got {value!r}")


def components(owner: str, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A number, or one per component of a reward of one lane's ``shape``, as float32."""
    numbers = np.asarray(value, np.float32)
    if numbers.shape not in ((), shape):
        raise ValueError(f"{owner}: {name} must be one number or have the shape {shape} of the reward, got {value!r}")
    return numbers
