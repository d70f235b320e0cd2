"""The bases of wrappers that compute the reward: from the whole row, or from the reward alone."""

import abc
from typing import ClassVar

import jax

from jaxenv import specs
from jaxenv.core._checks.rows import checked_reward, with_reward
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper
from jaxenv.tree import Tree


class RowRewardWrapper(Wrapper):
    """Computes the reward (``[B]`` or ``[B, R]``) from all fields of a row. Subclasses implement ``reward_of_row``.

    Owns ``reward``; the reward at FIRST is always 0.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})

    @abc.abstractmethod
    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        """Computes the reward of a batch of rows: ``[B]`` or ``[B, R]`` of any numeric dtype."""

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, self._with_reward(timestep)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        return state, self._with_reward(timestep)

    def _with_reward(self, timestep: TimeStep) -> TimeStep:
        return with_reward(type(self).__name__, timestep, self.reward_of_row(timestep))


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

        return specs.mapped_spec(mapped, self.env.reward_spec(), *lanes).replace(name="reward")

    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        return self.reward(timestep.reward)
