"""Where the episodes of a replay buffer begin and end: 8 bytes a row, one look-up whatever their length.

Episodes of a lane are numbered as they come. Every row holds its number, and a ring of as many ends as there are rows
is indexed by it: the stored rows belong to no more episodes than that. An episode begins after the one before it ends.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.data import ring
from jaxenv.timestep import StepType


@tree.struct
class Episodes:
    """The index of C rows of B lanes.

    Attributes:
        number: int32, of the episode that each row belongs to: a ring as the rows', see ``jaxenv.data.ring``.
        end: int32 ``[C, B]``, position of the newest row of episode e in slot e % C.
        current: int32 ``[B]``, number of the newest row's episode.
    """

    number: jax.Array
    end: jax.Array
    current: jax.Array


def empty(capacity: int, num_envs: int) -> Episodes:
    """The index of an empty buffer."""
    number = ring.empty(capacity, jax.ShapeDtypeStruct((1, num_envs), jnp.int32))
    return Episodes(number, jnp.full((capacity, num_envs), np.int32(-1)), jnp.zeros(num_envs, jnp.int32))


def extend(
    episodes: Episodes,
    step_type: jax.Array,
    position: jax.Array,
    env_id: jax.Array,
    write: Callable[[jax.Array, jax.Array], jax.Array],
) -> Episodes:
    """The index with more rows.

    Args:
        episodes: the index.
        step_type: int32 ``[T, K]``; an episode begins with a FIRST row.
        position: int32 ``[T, K]`` or ``[T, 1]``.
        env_id: int32 ``[K]``, lanes.
        write: (ring, what is new of the rows) -> ring, which puts it where the rows are put.
    """
    begun = jax.lax.cumsum((step_type == np.int32(StepType.FIRST)).astype(jnp.int32), axis=0)
    number = jnp.asarray(episodes.current).at[env_id].get(mode="clip")[None] + begun
    lane = jnp.broadcast_to(env_id[None], number.shape)
    # What lies in a slot is older, and of the rows of one episode the last one stays.
    place = number % np.int32(episodes.end.shape[0])
    end = jnp.asarray(episodes.end).at[place, lane].max(jnp.broadcast_to(position, number.shape), mode="drop")
    current = jnp.asarray(episodes.current).at[env_id].set(number[-1], mode="drop")
    return Episodes(write(episodes.number, number), end, current)


def begin_of(episodes: Episodes, env_id: jax.Array, slot: jax.Array) -> jax.Array:
    """Position after the end of the episode before that of a row, int32 ``[*S]``; it need not be stored any more."""
    before = ring.read(episodes.number, slot, env_id) - 1
    return _end(episodes, before, env_id) + 1


def end_of(episodes: Episodes, env_id: jax.Array, slot: jax.Array) -> jax.Array:
    """Position of the newest row of the episode of a row, int32 ``[*S]``."""
    return _end(episodes, ring.read(episodes.number, slot, env_id), env_id)


def _end(episodes: Episodes, number: jax.Array, env_id: jax.Array) -> jax.Array:
    return jnp.asarray(episodes.end).at[number % np.int32(episodes.end.shape[0]), env_id].get(mode="promise_in_bounds")
