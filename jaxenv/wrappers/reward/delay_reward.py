"""Pay several rewards at once."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LaneWrapper, Sum, TimeStep, bounded_reward
from jaxenv.random import Stream
from jaxenv.tree import Tree


@tree.struct
class Unpaid:
    """The sum of rewards since the last payment, and the number of steps it covers (int32 ``[B]``)."""

    reward: Sum
    steps: jax.Array


class DelayReward(LaneWrapper):
    """Pays the sum of the rewards on every ``num``-th step and on LAST, and 0 in between.

    The return of an episode does not change, and no reward carries over to the next one. Owns ``reward``.

    Args:
        num: number of steps per payment, at least 1: one number, or int32 ``[B]`` with one per lane.

    >>> import jaxenv
    >>> env = DelayReward(jaxenv.testing.Counting(np.array([9])), 2)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     state, timestep = env.step(state, jnp.array([5]))
    ...     print(timestep.reward.item())
    0.0
    10.0
    """

    num: int = tree.leaf(default=1, low=1)

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})
    in_evaluation = "left_out"
    place = "sees_ends"
    noop_kwargs: ClassVar = {"num": 1}

    def reward_spec(self) -> specs.Bounded:
        """Keeps only the signs of the bounds, since the number of summed rewards is unknown."""
        spec = self.env.reward_spec()
        low, high = specs.bounds(spec)
        return bounded_reward(spec, np.where(low < 0, -np.inf, 0), np.where(high > 0, np.inf, 0))

    def init(self, timestep: TimeStep, stream: Stream) -> Unpaid:
        return Unpaid(Sum.zeros(timestep.reward.shape), jnp.zeros_like(timestep.env_id))

    def after(self, own: Unpaid, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        reward = own.reward.add(timestep.reward)
        steps = own.steps + jnp.where(timestep.is_first(), np.int32(0), np.int32(1))
        nothing = Unpaid(Sum.zeros(reward.value.shape), jnp.zeros_like(steps))
        pays = (steps >= self.num) | timestep.is_last()
        paid = tree.where(pays, reward.value, nothing.reward.value)
        return tree.where(pays, nothing, Unpaid(reward, steps)), dataclasses.replace(timestep, reward=paid)
