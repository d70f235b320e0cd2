"""The contents of a replay buffer."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.rollout import Experience


@tree.struct
class ReplayState:
    """The contents of a `Replay`, C rows of B lanes: a plain tree of arrays.

    Attributes:
        rows: `Experience` in a paged ring (`_ring`). The row at position p is in slot p % C.
        position: int32, the number of rows added so far, which is the position of the next row: ``()`` if aligned,
            ``[B]`` otherwise.
        origin: int32, in the shape of ``position``: rows before it were cleared.
        episodes: an `EpisodeIndex` if episodes are indexed.
        sampling: the state of ``Replay.sampling``; ``()`` if sampling is uniform.
    """

    rows: Experience
    position: jax.Array
    origin: jax.Array
    episodes: Any = ()
    sampling: Any = ()

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of a batch of buffers made by ``jax.vmap``; ``()`` for one buffer."""
        return self._ring_shape[:-3]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the `Replay` that made the state, as far as its structure and shapes determine them."""
        num_pages, num_envs, page_size = self._ring_shape[-3:]
        return {
            "capacity": num_pages * page_size,
            "num_envs": num_envs,
            "aligned": jnp.ndim(self.position) == len(self.batch_shape),
            "index_episodes": self.episodes != (),
        }

    @property
    def _ring_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.rows.timestep.step_type)
