"""A ring of rows per lane, stored in pages: 16 consecutive rows of one lane, then 16 rows of the next lane.

Adding a row to every lane and reading a window of one lane favour opposite layouts. With the lanes innermost, a window
of 64 rows touches 64 places in memory; with the rows innermost, a new row of 1024 lanes touches 1024. With pages, both
touch few cache lines. Slot s of lane b is stored at ``[s // P, b, s % P]``.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PAGE = 16


def empty(capacity: int, rows: Any) -> Any:
    """Zeros ``[C / P, B, P, ...]`` for each leaf ``[T, B, ...]``; P is the greatest common divisor of C and 16."""
    page_size = math.gcd(capacity, PAGE)
    return jax.tree.map(
        lambda x: jnp.zeros((capacity // page_size, x.shape[1], page_size, *x.shape[2:]), x.dtype), rows
    )


def row_shape(buffer: jax.Array) -> tuple[int, ...]:
    """Shape of one row of one lane."""
    return buffer.shape[3:]


def write(ring: Any, rows: Any, slot: jax.Array) -> Any:
    """Writes rows ``[T, B, ...]`` of all lanes to distinct slots ``[T]``."""

    def write_leaf(buffer, x):
        buffer, x = jnp.asarray(buffer), jnp.asarray(x)
        page, offset = jnp.divmod(slot, np.int32(buffer.shape[2]))
        other = _write_row if x.shape[0] == 1 else _scatter
        return jax.lax.platform_dependent(buffer, x, page, offset, cpu=_write_one_by_one, default=other)

    return jax.tree.map(write_leaf, ring, rows)


def _write_one_by_one(buffer: jax.Array, rows: jax.Array, page: jax.Array, offset: jax.Array) -> jax.Array:
    """Copies row after row: on a CPU a scatter would move one byte at a time."""
    # The barrier hides the number of rows, or XLA:CPU (jaxlib 0.10.2) would unroll a loop over one row, fuse the write
    # into the reads that follow it, and copy the whole buffer, because they then read what it held before.
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

    def write_leaf(buffer, x):
        buffer, x = jnp.asarray(buffer), jnp.asarray(x)
        page, offset = jnp.divmod(slot, np.int32(buffer.shape[2]))
        lane = jnp.broadcast_to(env_id[None], slot.shape)
        return buffer.at[page, lane, offset].set(x, unique_indices=True, mode="drop")

    return jax.tree.map(write_leaf, ring, rows)


def read(ring: Any, slot: jax.Array, env_id: jax.Array) -> Any:
    """Rows ``[*S, ...]`` in slots of lanes, int32 ``[*S]`` both and in range."""

    def read_leaf(buffer):
        page, offset = jnp.divmod(slot, np.int32(buffer.shape[2]))
        return jnp.asarray(buffer).at[page, env_id, offset].get(mode="promise_in_bounds")

    return jax.tree.map(read_leaf, ring)
