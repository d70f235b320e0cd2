"""Add noise to the reward."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class RewardNoise(LaneWrapper):
    """Adds normal noise with mean 0 and standard deviation ``scale`` to the reward of every step, as bsuite does.

    Draws are independent for every lane, step and component. Rewards of FIRST rows stay 0. Owns ``reward``, which has
    no bounds; ``mode="eval"`` leaves the wrapper out.

    Args:
        scale: the standard deviation, at least 0, in units of the reward: one number, or one per lane.

    >>> import jaxenv
    >>> env = RewardNoise(jaxenv.spec("Catch-bsuite").make(), 0.1)
    >>> env.reward_spec()
    Array((), float32, name='reward')
    """

    scale: Any = tree.leaf(low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})
    in_evaluation = "left_out"
    noop_kwargs = {"scale": np.float32(0)}

    def reward_spec(self) -> specs.Array:
        return specs.Array(self.env.reward_spec().shape, np.float32, "reward")

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        reward = timestep.reward
        noise = tree.expand(self.scale, reward.ndim) * random.normal(stream, reward.shape[1:])
        first = tree.expand(timestep.is_first(), reward.ndim)
        return own, dataclasses.replace(timestep, reward=reward + jnp.where(first, np.float32(0), noise))
