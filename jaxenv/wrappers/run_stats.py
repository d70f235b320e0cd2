"""Count the steps and episodes of every lane since the first reset."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.wrapper import Wrapper


@tree.struct
class RunState:
    """State of the environment inside and the counters of `RunStats`, each int32 ``[B]``.

    Attributes:
        inner: the state of the environment inside.
        episodes: completed episodes: LAST rows.
        resets: started episodes, including the first.
        total_steps: rows other than FIRST.
        episode_steps: rows other than FIRST in the current episode.
    """

    inner: Any
    episodes: jax.Array
    resets: jax.Array
    total_steps: jax.Array
    episode_steps: jax.Array


class RunStats(Wrapper):
    """Counts episodes, resets and steps per lane in its state, a `RunState`. Restarts do not reset the counters.

    The wrapper works inside and outside ``AutoReset``. ``reset`` starts the counters from zero. Owns no field: rows
    pass through unchanged.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.RunStats(jaxenv.wrappers.AutoReset(jaxenv.testing.mock_012()))
    >>> state, _ = env.reset(jax.random.key(0))
    >>> for _ in range(4):
    ...     state, _ = env.step(state, jnp.zeros(1, jnp.int32))
    >>> [count.tolist() for count in (state.episodes, state.resets, state.total_steps, state.episode_steps)]
    [[1], [2], [3], [1]]
    """

    owns: ClassVar[frozenset[str]] = frozenset()

    def inner(self, state):
        return state.inner

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, None if previous is None else previous.inner)
        zero = jnp.zeros_like(episode)
        if previous is None:
            return RunState(state, zero, zero + 1, zero, zero), timestep
        return RunState(state, previous.episodes, previous.resets + 1, previous.total_steps, zero), timestep

    def step(self, state, action):
        inner, timestep = self.env.step(state.inner, action)
        starts, taken = self.env.starts(timestep), (~timestep.is_first()).astype(jnp.int32)
        return RunState(
            inner=inner,
            episodes=state.episodes + timestep.is_last().astype(jnp.int32),
            resets=state.resets + starts.astype(jnp.int32),
            total_steps=state.total_steps + taken,
            episode_steps=jnp.where(starts, jnp.zeros_like(taken), state.episode_steps + taken),
        ), timestep
