"""Pay 1 for a reward above a threshold."""

from typing import Any

import jax

from jaxenv import specs, tree
from jaxenv.core import RewardWrapper, bounded_reward


class SparseReward(RewardWrapper):
    """Pays 1 if the reward exceeds the threshold, else 0 (also for NaN).

    Owns ``reward``.

    Args:
        threshold: one number, or float32 ``[B]`` with one per lane.

    >>> import jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.SparseReward(jaxenv.spec("MountainCar-v0").make())
    >>> env.reward(jnp.array([-1.0, 0.0, 0.5])).tolist()
    [0.0, 0.0, 1.0]
    """

    threshold: Any = tree.leaf(default=0.0)

    in_evaluation = "left_out"

    def reward_spec(self) -> specs.Bounded:
        return bounded_reward(self.env.reward_spec(), 0, 1)

    def reward(self, reward: jax.Array) -> jax.Array:
        return (reward > tree.expand(self.threshold, reward.ndim)).astype(reward.dtype)
