"""The base of wrappers that map the reward by a function."""

import abc

import jax

from jaxenv import specs
from jaxenv.core._checks.rows import checked_reward
from jaxenv.core.bases.row_reward_wrapper import RowRewardWrapper
from jaxenv.core.timestep import TimeStep
from jaxenv.specs._bounds import mapped_spec


class RewardWrapper(RowRewardWrapper):
    """Maps the reward, float32 ``[B]`` or ``[B, R]`` of R > 1. Subclasses implement ``reward``.

    Implement ``reward_spec`` as well if the bounds of the result are known.

    Owns ``reward``; the reward at FIRST stays 0.
    """

    @abc.abstractmethod
    def reward(self, reward: jax.Array) -> jax.Array:
        """Maps a batch of rewards of ``env``: float32 ``[B]`` or ``[B, R]``."""

    def reward_spec(self) -> specs.Array:
        """Returns the shape of the result of ``reward``, without bounds."""
        lanes = (self._spec_lanes,)

        def mapped(reward: jax.Array) -> jax.Array:
            return checked_reward(f"{type(self).__name__}.reward", self.reward(reward), lanes)

        return mapped_spec(mapped, self.env.reward_spec(), *lanes).replace(name="reward")

    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        return self.reward(timestep.reward)
