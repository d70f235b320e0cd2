"""Start every episode alike."""

from typing import Any

import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.wrapper import Wrapper


class FixedResetKey(Wrapper):
    """Uses a key of its own for ``initial`` and holds the episode at 0 there: each lane has one start, for evaluation.

    What the task draws during the episode still follows the lane's own stream, so stochastic tasks vary; those of a
    `Multitask`, which have streams of their own from its start, do not.

    Args:
        env: the environment itself.
        key: one typed key (lane i starts from ``fold_in(key, env_id[i])``), or ``Key[B]``.
    """

    key: Any = tree.key_leaf()

    def check(self):
        if self.env is not self.env.unwrapped:
            raise ValueError(f"FixedResetKey: put it around the environment itself, not around {self.env}")

    def begin(self, keys, env_id, episode, previous=None):
        fixed = random.lane_words(self.key, env_id)
        state, timestep = self.env.begin(fixed, env_id, jnp.zeros_like(episode), previous)
        clock = random.Clock(keys, env_id, episode, jnp.zeros_like(episode))
        return tree.rebuild(state, clock=clock), timestep
