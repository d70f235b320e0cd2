"""The base of wrappers that map the reward by a function."""

import abc

import jax
import numpy as np

from jaxenv._bounds import mapped_spec
from jaxenv._wrapper_bases.row_reward_wrapper import RowRewardWrapper


class RewardWrapper(RowRewardWrapper):
    """Maps the reward, float32 ``[B]`` or ``[B, R]``. Subclasses implement ``reward``.

    Implement ``reward_spec`` as well if the bounds of the result are known.

    Owns ``reward``; the reward at FIRST stays 0.
    """

    @abc.abstractmethod
    def reward(self, reward: jax.Array) -> jax.Array:
        """The new reward for a batch of inner ones: float32 ``[B]`` or ``[B, R]``."""

    def reward_spec(self):
        """Shape of what ``reward`` returns, without bounds."""
        spec = mapped_spec(self.reward, self.env.reward_spec(), self.spec_lanes)
        return spec.replace(dtype=np.float32, name="reward")

    def reward_of_row(self, timestep):
        return self.reward(timestep.reward)
