"""Start every episode of a lane in the same state."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core import Levels, Starts, TimeStep, Wrapper
from jaxenv.tree import Tree


class FixedResetKey(Wrapper):
    """Starts every episode of a lane in the same state, which ``initial`` draws from a fixed key.

    Use it for evaluation. Transitions still draw from the lane's own stream, so episodes of stochastic tasks differ.
    The tasks of a `Multitask` derive their streams from the key of the start, so their episodes do not differ. Owns no
    field.

    Args:
        env: an environment without wrappers.
        key: one typed key (lane i starts from ``fold_in(key, env_id[i])``), or ``Key[B]``.

    >>> import jax, jaxenv
    >>> env = FixedResetKey(jaxenv.spec("CartPole-v1").make(num_envs=2), jax.random.key(7))
    >>> starts = [env.reset(jax.random.key(seed))[1].observation for seed in (0, 1)]
    >>> bool((starts[0] == starts[1]).all())
    True
    """

    key: Any = tree.key_leaf()

    in_evaluation = "kept"
    place = "task"

    def check(self) -> None:
        if self.env is not self.env.unwrapped:
            raise ValueError(f"FixedResetKey: put it around the environment itself, not around {self.env}")

    def _fixed(self, starts: Starts) -> Starts:
        """Returns the episode that every episode of the lanes repeats."""
        words = self._lane_words(self.key, starts.env_id)
        return dataclasses.replace(starts, keys=words, episode=jnp.zeros_like(starts.episode))

    def levels(self) -> Levels:
        levels = super().levels()
        return dataclasses.replace(levels, sample=lambda starts: levels.sample(self._fixed(starts)))

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(self._fixed(starts), previous)
        return tree.rebuild(state, clock=starts.clock), timestep
