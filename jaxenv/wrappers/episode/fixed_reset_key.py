"""Start every episode of a lane in the same state."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.core import TimeStep, Wrapper
from jaxenv.random import KeyWords
from jaxenv.tree import Tree


class FixedResetKey(Wrapper):
    """Starts every episode of a lane in the same state, which ``initial`` draws from a fixed key.

    Use it for evaluation. Transitions still draw from the lane's own stream, so episodes of stochastic tasks differ.
    The tasks of a `Multitask` derive their streams from the key of the start, so their episodes do not differ. Owns no
    field.

    Args:
        env: an environment without wrappers.
        key: one typed key (lane i starts from ``fold_in(key, env_id[i])``), or ``Key[B]``.

    Raises:
        ValueError: if ``env`` has wrappers.

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

    def _new_level(self, keys: KeyWords, env_id: jax.Array, episode: jax.Array) -> Tree:
        return self.env._new_level(self.lane_words(self.key, env_id), env_id, jnp.zeros_like(episode))

    def begin(
        self, keys: KeyWords, env_id: jax.Array, episode: jax.Array, previous: Tree = None
    ) -> tuple[Tree, TimeStep]:
        fixed = self.lane_words(self.key, env_id)
        state, timestep = self.env.begin(fixed, env_id, jnp.zeros_like(episode), previous)
        clock = random.Clock(keys, env_id, episode, jnp.zeros_like(episode))
        return tree.rebuild(state, clock=clock), timestep
