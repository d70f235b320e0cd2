"""The base of transformers that map the reward."""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv._bounds import mapped_spec
from jaxenv._reward import with_reward
from jaxenv.data.transformers.row_transformer import RowTransformer
from jaxenv.timestep import TimeStep


class RewardTransformer(RowTransformer):
    """Maps the reward of every step. Write ``reward``, and ``reward_spec`` for its bounds.

    The reward of FIRST rows, which are not steps, remains 0.
    """

    @abc.abstractmethod
    def reward(self, reward: jax.Array) -> Any:
        """The new reward for a batch of rewards, ``[B]`` or ``[B, R]``; it is cast to float32."""

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        """The spec of one lane's new reward: by default the shape of what ``reward`` returns, without bounds."""
        new_spec = mapped_spec(lambda x: jnp.asarray(self.reward(x), jnp.float32), spec, lanes=2)
        return new_spec.replace(name="reward")

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        owner = type(self).__name__
        return with_reward(owner, timestep, self.reward(reward_of(owner, timestep)))

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        old: Any = spec.reward  # a spec in place of an array
        new: Any = self.reward_spec(old)
        return dataclasses.replace(spec, reward=new)


def reward_of(owner: str, timestep: TimeStep) -> jax.Array:
    """The reward of rows; raises a ``ValueError`` if they hold none."""
    if isinstance(timestep.reward, tuple):
        raise ValueError(f"{owner}: the rows hold no reward, keep it in unroll(fields=...)")
    return timestep.reward


def check_components(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is a finite number, or a sequence of them, one per reward component."""
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
