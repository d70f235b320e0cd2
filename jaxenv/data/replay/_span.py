"""Locates the rows that a replay buffer holds of every lane."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.checks import check_array, is_concrete


@dataclasses.dataclass(frozen=True)
class Span:
    """The stored positions of every lane: from ``begin``, the oldest one, up to ``end``, the next row's."""

    capacity: int  # C, rows stored per lane
    num_envs: int  # B, lanes
    aligned: bool  # whether all lanes hold the same positions
    ignore_earliest: int  # how many of the oldest rows of a lane never start a window
    origin: jax.Array  # int32, () if aligned, [B] otherwise: rows before it were cleared
    end: jax.Array  # int32, in the shape of origin

    @property
    def begin(self) -> jax.Array:
        """The oldest position stored, int32 in the shape of ``end``."""
        return jnp.maximum(self.end - np.int32(self.capacity), self.origin)

    @property
    def size(self) -> jax.Array:
        """Rows stored per lane, int32."""
        return self.end - self.begin

    def at_lanes(self, x: jax.Array, env_id: Any) -> jax.Array:
        """Returns the entries of lanes ``[*S]`` of an array shaped as ``end``: ``()`` if aligned, else ``[*S]``."""
        return x if self.aligned else jnp.asarray(x).at[env_id].get(mode="clip")

    def begin_of(self, env_id: Any) -> jax.Array:
        """Returns ``begin`` of lanes ``[*S]``: ``()`` if aligned, ``[*S]`` otherwise."""
        return self.at_lanes(self.begin, env_id)

    def end_of(self, env_id: Any) -> jax.Array:
        """Returns ``end`` of lanes ``[*S]``: ``()`` if aligned, ``[*S]`` otherwise."""
        return self.at_lanes(self.end, env_id)

    def num_windows(self, length: int) -> jax.Array:
        """Returns how many windows of ``length`` rows each lane has, uint32 in the shape of ``end``."""
        count = self.size - np.int32(self.ignore_earliest + length - 1)
        return jnp.maximum(count, np.int32(0)).astype(jnp.uint32)

    def starts_window(self, position: jax.Array, env_id: Any, length: int) -> jax.Array:
        """Returns whether a window of ``length`` rows starts at positions of lanes, bool ``[*S]``."""
        return (position >= self.begin_of(env_id) + np.int32(self.ignore_earliest)) & (
            position <= self.end_of(env_id) - np.int32(length)
        )

    def slot_of(self, position: jax.Array) -> jax.Array:
        """Returns the slot of the ring that holds a position."""
        return position % np.int32(self.capacity)

    def position_of(self, slot: Any, env_id: Any) -> jax.Array:
        """Returns the newest position in a slot of a lane, int32 ``[*S]``; negative if the slot was never written."""
        newest = self.end_of(env_id) - 1
        return newest - (newest - slot) % np.int32(self.capacity)

    def locate(self, owner: str, env_id: Any, position: Any) -> tuple[jax.Array, jax.Array]:
        """Returns lanes and positions of stored rows, int32 ``[*S]`` both.

        Concrete values raise a ``ValueError`` if a row is not stored. Traced values are replaced by the nearest row.
        """
        check_array(owner, "env_id", env_id)
        check_array(owner, "position", position)
        env_id, position = jnp.asarray(env_id), jnp.asarray(position)
        if env_id.shape != position.shape:
            raise ValueError(
                f"{owner}: env_id and position must have the same shape, got {env_id.shape} and {position.shape}"
            )
        for name, x in (("env_id", env_id), ("position", position)):
            if not jnp.issubdtype(x.dtype, jnp.integer):
                raise ValueError(f"{owner}: {name} must be integers, got {x.dtype}")
        env_id, position = env_id.astype(jnp.int32), position.astype(jnp.int32)
        lane = jnp.clip(env_id, np.int32(0), np.int32(self.num_envs - 1))
        begin, end = self.begin_of(lane), self.end_of(lane)
        nearest = jnp.clip(position, begin, jnp.maximum(end - 1, begin))
        is_missing = (env_id != lane) | (position < begin) | (position >= end)
        if is_concrete(is_missing) and np.any(is_missing):
            first = int(np.argmax(np.asarray(is_missing)))
            raise ValueError(
                f"{owner}: position {position.reshape(-1)[first]} of lane {env_id.reshape(-1)[first]} is not stored, "
                f"the buffer has {self.num_envs} lanes and positions {np.asarray(begin).reshape(-1).tolist()[:4]} "
                f"to {(np.asarray(end) - 1).reshape(-1).tolist()[:4]}"
            )
        return lane, nearest
