"""The contents of a replay buffer, and where a row is in them.

A lane numbers its rows from 0: the *position* of a row. The row at position p is in slot p % C of a ring of C rows.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import xla
from jaxenv._util.checks import check_array, is_concrete
from jaxenv.core._compiled import compiled_once
from jaxenv.core.timestep import StepType
from jaxenv.rollout import Experience
from jaxenv.tree import Tree
from jaxenv.tree._structure import type_mismatch

_PAGE = 16  # rows


@tree.struct
class ReplayState:
    """The contents of a `Replay`, C rows of B lanes: a plain tree of arrays."""

    rows: Experience  # `Experience` in a paged ring, see `empty_ring`. The row at position p is in slot p % C
    position: jax.Array  # int32[] if aligned, else int32[B]: rows added so far, the position of the next row
    origin: jax.Array  # int32, in the shape of position: rows before it were cleared
    episodes: Any = ()  # an `EpisodeIndex` if episodes are indexed
    sampling: Any = ()  # the state of Replay.sampling; () if sampling is uniform

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of a batch of buffers made by ``jax.vmap``; ``()`` for one buffer."""
        return self._ring_shape[:-3]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the `Replay` that made the state, where its structure and shapes determine them."""
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

    def distinct_lanes(self, owner: str, env_id: Any) -> jax.Array:
        """Returns distinct lanes as int32 ``[K]``.

        Concrete values raise a ``ValueError`` if they are repeated or out of range. Traced values out of range, and all
        but the last of repeated ones, become distinct lanes from ``num_envs`` on: writes to them are dropped.
        """
        check_array(owner, "env_id", env_id)
        lanes = jnp.asarray(env_id)
        if lanes.ndim != 1 or not jnp.issubdtype(lanes.dtype, jnp.integer):
            raise ValueError(f"{owner}: env_id must be integers [K], got {lanes.dtype}{list(lanes.shape)}")
        if is_concrete(env_id):
            values = np.asarray(env_id)
            if values.size and (values.min() < 0 or values.max() >= self.num_envs):
                raise ValueError(f"{owner}: env_id must be in 0 .. {self.num_envs - 1}, got {values.tolist()}")
            if len(np.unique(values)) < values.size:
                raise ValueError(f"{owner}: env_id must name each lane once, got {values.tolist()}")
            return lanes.astype(jnp.int32)
        lanes, order = lanes.astype(jnp.int32), np.arange(lanes.shape[0], dtype=np.int32)
        is_known = (lanes >= 0) & (lanes < np.int32(self.num_envs))
        # A negative index would count from the end.
        lane = jnp.where(is_known, lanes, np.int32(self.num_envs))
        last = tree.vary_like(lane, jnp.full(self.num_envs, np.int32(-1))).at[lane].max(order, mode="drop")
        return jnp.where(is_known & (last.at[lane].get(mode="clip") == order), lane, np.int32(self.num_envs) + order)

    def locate(self, owner: str, env_id: Any, position: Any) -> tuple[jax.Array, jax.Array]:
        """Returns lanes and positions of stored rows, int32 ``[*S]`` both.

        Concrete values raise a ``ValueError`` if a row is not stored. Traced values are replaced by the nearest row.
        """
        check_array(owner, "env_id", env_id)
        check_array(owner, "position", position)
        env_id, position = jnp.asarray(env_id), jnp.asarray(position)
        if env_id.shape != position.shape:
            rule = "env_id and position must have the same shape"
            raise ValueError(f"{owner}: {rule}, got {env_id.shape} and {position.shape}")
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


@tree.struct
class EpisodeIndex:
    """Finds first and last rows of the episodes of C rows of B lanes: 8 bytes per row, one look-up for any length.

    The episodes of a lane are numbered consecutively. Each row stores the number of its episode, and a ring of C
    entries stores the last position of each episode. C entries suffice, since C rows belong to at most C episodes. An
    episode starts at the position after the end of the previous one.
    """

    number: jax.Array  # int32, the number of each row's episode, in a ring like the rows
    end: jax.Array  # int32[C, B], the position of the newest row of episode e, in slot e % C
    current: jax.Array  # int32[B], the number of the newest row's episode

    @classmethod
    def empty(cls, capacity: int, num_envs: int) -> "EpisodeIndex":
        """Returns the index of an empty buffer."""
        number = empty_ring(capacity, jax.ShapeDtypeStruct((1, num_envs), jnp.int32))
        return cls(number, jnp.full((capacity, num_envs), np.int32(-1)), jnp.zeros(num_envs, jnp.int32))

    def extend(
        self,
        step_type: jax.Array,
        position: jax.Array,
        env_id: jax.Array,
        write: Callable[[jax.Array, jax.Array], jax.Array],
    ) -> "EpisodeIndex":
        """Returns the index after rows of ``step_type``, int32 ``[T, K]``, were added to lanes ``[K]``.

        ``position`` is int32 ``[T, K]`` or ``[T, 1]``. ``write(ring, values)`` writes values ``[T, K]`` to the slots of
        the rows, and returns the ring.
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
        return self._end(read_rows(self.number, slot, env_id) - 1, env_id) + 1

    def end_of(self, env_id: jax.Array, slot: jax.Array) -> jax.Array:
        """Returns the position of the newest row of the rows' episodes, int32 ``[*S]``."""
        return self._end(read_rows(self.number, slot, env_id), env_id)

    def _end(self, number: jax.Array, env_id: jax.Array) -> jax.Array:
        return jnp.asarray(self.end).at[number % np.int32(self.end.shape[0]), env_id].get(mode="promise_in_bounds")


# --- the ring -------------------------------------------------------------------------------------------------------


@tree.struct
class Bits:
    """Rows of flags, each as the bits of ``ceil(n / 8)`` bytes in the order of ``jnp.packbits``."""

    bytes: jax.Array  # uint8[C / P, B, P, ceil(n / 8)]
    row_shape: tuple[int, ...] = tree.static()  # the shape of a row, of n elements

    def pack(self, rows: jax.Array) -> jax.Array:
        """Packs bool ``[T, B, *row_shape]`` into uint8 ``[T, B, ceil(n / 8)]``."""
        # Inside the kernel that computes the flags, packing took up to ten times as long (Freeway-MinAtar).
        return xla.in_own_kernels(lambda x: jnp.packbits(x.reshape(*x.shape[:2], -1), axis=-1), rows)

    def unpack(self, rows: jax.Array) -> jax.Array:
        """Unpacks uint8 ``[*S, ceil(n / 8)]`` to bool ``[*S, *row_shape]``."""
        flat = jnp.unpackbits(rows, axis=-1, count=math.prod(self.row_shape))
        return flat.astype(bool).reshape(*rows.shape[:-1], *self.row_shape)


def empty_ring(capacity: int, rows: Any, pack_bits: bool = False) -> Any:
    """Returns zeros ``[C / P, B, P, ...]`` per leaf ``[T, B, ...]``; P is the greatest common divisor of C and 16.

    Adding a row to every lane and reading a window of one lane favour opposite layouts. With the lanes innermost, a
    window of 64 rows touches 64 places in memory; with the rows innermost, a new row of 1024 lanes touches 1024. With
    pages, P consecutive rows of one lane and then P rows of the next lane, both touch few cache lines. Slot s of lane b
    is stored at ``[s // P, b, s % P]``. With ``pack_bits`` leaves of several flags a row become `Bits`.
    """
    page_size = math.gcd(capacity, _PAGE)

    def empty_leaf(x: jax.Array) -> jax.Array | Bits:
        num_envs, *shape = x.shape[1:]
        pages, n = (capacity // page_size, num_envs, page_size), math.prod(shape)
        if pack_bits and x.dtype == bool and n > 1:
            return Bits(jnp.zeros((*pages, -(-n // 8)), jnp.uint8), tuple(shape))
        return jnp.zeros((*pages, *shape), x.dtype)

    return jax.tree.map(empty_leaf, rows)


def check_added(owner: str, rows: Experience, ring: Experience, num_lanes: int, capacity: int) -> None:
    """Raises a ``ValueError`` if structure, shapes or dtypes differ from the ring's, or there are too many rows."""
    num_rows = jnp.shape(rows.timestep.step_type)[0]

    def rows_like(leaf: Tree) -> jax.ShapeDtypeStruct:
        shape, dtype = (leaf.row_shape, bool) if isinstance(leaf, Bits) else (leaf.shape[3:], leaf.dtype)
        return jax.ShapeDtypeStruct((num_rows, num_lanes, *shape), dtype)

    if (fault := type_mismatch(_map(rows_like, ring), jax.eval_shape(lambda: rows), "rows")) is not None:
        raise ValueError(f"{owner}: {fault}, as rows of {num_lanes} lanes in the buffer")
    if num_rows > capacity:
        raise ValueError(f"{owner}: rows must be at most as many as the capacity of {capacity}, got {num_rows}")


def _map(function: Callable[..., Any], ring: Any, *rows: Any) -> Any:
    """Applies ``jax.tree.map`` to the leaves of a ring."""
    return jax.tree.map(function, ring, *rows, is_leaf=lambda x: isinstance(x, Bits))


def _write(write_buffer: Callable[..., Any], ring: Any, rows: Any) -> Any:
    """Applies ``write_buffer(buffer, rows)`` to every buffer of a ring."""

    def write_leaf(leaf: Tree, x: jax.Array) -> Any:
        if isinstance(leaf, Bits):
            return dataclasses.replace(leaf, bytes=write_leaf(leaf.bytes, leaf.pack(jnp.asarray(x))))
        return write_buffer(jnp.asarray(leaf), jnp.asarray(x))

    return _map(write_leaf, ring, rows)


def write_rows(ring: Any, rows: Any, slot: jax.Array) -> Any:
    """Writes rows ``[T, B, ...]`` of all lanes to distinct slots ``[T]``."""
    return _write(lambda buffer, x: _write_buffer(buffer, x, slot), ring, rows)


@compiled_once
def _write_buffer(buffer: jax.Array, rows: jax.Array, slot: jax.Array) -> jax.Array:
    page, offset = jnp.divmod(slot, np.int32(buffer.shape[2]))
    other = _write_row if rows.shape[0] == 1 else _scatter
    return jax.lax.platform_dependent(buffer, rows, page, offset, cpu=_write_one_by_one, default=other)


def _write_one_by_one(buffer: jax.Array, rows: jax.Array, page: jax.Array, offset: jax.Array) -> jax.Array:
    """Copies row after row: on a CPU a scatter would move one byte at a time."""
    # The barrier hides the number of rows, or XLA:CPU (jaxlib 0.10.2) would unroll a loop over one row, fuse the write
    # into the reads that follow it, and copy the whole buffer, because they read its previous content.
    num_rows = jax.lax.optimization_barrier(jnp.int32(rows.shape[0]))
    return jax.lax.fori_loop(0, num_rows, lambda t, buffer: _write_row(buffer, rows, page, offset, t), buffer)


def _write_row(buffer: jax.Array, rows: jax.Array, page: jax.Array, offset: jax.Array, t: Any = 0) -> jax.Array:
    row = jnp.expand_dims(jax.lax.dynamic_index_in_dim(rows, t), 2)
    zero = np.int32(0)
    return jax.lax.dynamic_update_slice(buffer, row, (page[t], zero, offset[t], *(zero,) * (row.ndim - 3)))


def _scatter(buffer: jax.Array, rows: jax.Array, page: jax.Array, offset: jax.Array) -> jax.Array:
    return buffer.at[page, :, offset].set(rows, unique_indices=True, mode="promise_in_bounds")


def write_lanes(ring: Any, rows: Any, slot: jax.Array, env_id: jax.Array) -> Any:
    """Writes rows ``[T, K, ...]`` to slots ``[T, K]`` of lanes ``[K]``, all distinct; unknown lanes are dropped."""

    def write_buffer(buffer: jax.Array, x: jax.Array) -> jax.Array:
        page, offset = jnp.divmod(slot, np.int32(buffer.shape[2]))
        lane = jnp.broadcast_to(env_id[None], slot.shape)
        return buffer.at[page, lane, offset].set(x, unique_indices=True, mode="drop")

    return _write(write_buffer, ring, rows)


def read_rows(ring: Any, slot: jax.Array, env_id: jax.Array) -> Any:
    """Reads rows ``[*S, ...]`` in slots of lanes, int32 ``[*S]`` both and in range."""

    def read_leaf(leaf: Tree) -> jax.Array:
        if isinstance(leaf, Bits):
            return leaf.unpack(read_leaf(leaf.bytes))
        buffer = jnp.asarray(leaf)
        page, offset = jnp.divmod(slot, np.int32(buffer.shape[2]))
        return buffer.at[page, env_id, offset].get(mode="promise_in_bounds")

    return _map(read_leaf, ring)
