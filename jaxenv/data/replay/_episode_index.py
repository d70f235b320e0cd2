"""Finds first and last rows of the episodes in a replay buffer: 8 bytes per row, one look-up for any length.

The episodes of a lane are numbered consecutively. Each row stores the number of its episode, and a ring of C entries
stores the last position of each episode. C entries suffice, since C rows belong to at most C episodes. An episode
starts at the position after the end of the previous one.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core.timestep import StepType
from jaxenv.data.replay import _ring


@tree.struct
class EpisodeIndex:
    """The index of C rows of B lanes."""

    number: jax.Array  # int32, the number of each row's episode, in a ring like the rows (`_ring`)
    end: jax.Array  # int32[C, B], the position of the newest row of episode e, in slot e % C
    current: jax.Array  # int32[B], the number of the newest row's episode

    @classmethod
    def empty(cls, capacity: int, num_envs: int) -> "EpisodeIndex":
        """Returns the index of an empty buffer."""
        number = _ring.empty(capacity, jax.ShapeDtypeStruct((1, num_envs), jnp.int32))
        return cls(number, jnp.full((capacity, num_envs), np.int32(-1)), jnp.zeros(num_envs, jnp.int32))

    def extend(
        self,
        step_type: jax.Array,
        position: jax.Array,
        env_id: jax.Array,
        write: Callable[[jax.Array, jax.Array], jax.Array],
    ) -> "EpisodeIndex":
        """Returns the index after more rows were added.

        Args:
            step_type: int32 ``[T, K]``; a FIRST row starts an episode.
            position: int32 ``[T, K]`` or ``[T, 1]``.
            env_id: int32 ``[K]``, lanes.
            write: (ring, new values ``[T, K]``) -> ring, which writes them to the slots of the rows.
        """
        num_starts = jax.lax.cumsum((step_type == np.int32(StepType.FIRST)).astype(jnp.int32), axis=0)
        number = jnp.asarray(self.current).at[env_id].get(mode="clip")[None] + num_starts
        lane = jnp.broadcast_to(env_id[None], number.shape)
        # The maximum keeps the last row of each episode: the previous content of the slot is older.
        slot = number % np.int32(self.end.shape[0])
        end = jnp.asarray(self.end).at[slot, lane].max(jnp.broadcast_to(position, number.shape), mode="drop")
        current = jnp.asarray(self.current).at[env_id].set(number[-1], mode="drop")
        return EpisodeIndex(write(self.number, number), end, current)

    def begin_of(self, env_id: jax.Array, slot: jax.Array) -> jax.Array:
        """Returns the position of the first row of the rows' episodes, int32 ``[*S]``; it may have been overwritten."""
        return self._end(_ring.read(self.number, slot, env_id) - 1, env_id) + 1

    def end_of(self, env_id: jax.Array, slot: jax.Array) -> jax.Array:
        """Returns the position of the newest row of the rows' episodes, int32 ``[*S]``."""
        return self._end(_ring.read(self.number, slot, env_id), env_id)

    def _end(self, number: jax.Array, env_id: jax.Array) -> jax.Array:
        return jnp.asarray(self.end).at[number % np.int32(self.end.shape[0]), env_id].get(mode="promise_in_bounds")
