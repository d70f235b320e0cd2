"""Rows of lanes in a ring, kept in pages: 16 rows of one lane side by side, then the next lane's.

Adding a row of every lane and reading a window of one lane pull in opposite directions. With lanes side by side a
window of 64 rows is in 64 places of memory, with rows side by side one new row of 1024 lanes in 1024. In pages both
touch few cache lines: slot s of lane b lies at ``[s // P, b, s % P]``.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PAGE = 16


def empty(capacity: int, like: Any) -> Any:
    """Zeros ``[C / P, B, P, ...]`` for each leaf ``[T, B, ...]``; P divides C, 16 if it is a multiple of it."""
    page = math.gcd(capacity, PAGE)
    return jax.tree.map(lambda x: jnp.zeros((capacity // page, x.shape[1], page, *x.shape[2:]), x.dtype), like)


def row_shape(buffer: jax.Array) -> tuple[int, ...]:
    """Shape of one row of one lane."""
    return buffer.shape[3:]


def write(ring: Any, rows: Any, slot: jax.Array) -> Any:
    """Puts rows ``[T, B, ...]`` of all lanes into slots ``[T]``, no two the same."""

    def one(buffer, x):
        buffer, x = jnp.asarray(buffer), jnp.asarray(x)
        page, place = jnp.divmod(slot, np.int32(buffer.shape[2]))
        if x.shape[0] == 1:
            return _one_by_one(buffer, x, page, place)
        return jax.lax.platform_dependent(buffer, x, page, place, cpu=_one_by_one, default=_at_once)

    return jax.tree.map(one, ring, rows)


def _one_by_one(buffer: jax.Array, rows: jax.Array, page: jax.Array, place: jax.Array) -> jax.Array:
    """A copy for each row: on a processor a scatter would move byte after byte."""

    def put(t, buffer):
        row = jnp.expand_dims(jax.lax.dynamic_index_in_dim(rows, t), 2)
        zero = np.int32(0)
        return jax.lax.dynamic_update_slice(buffer, row, (page[t], zero, place[t], *(zero,) * (row.ndim - 3)))

    return jax.lax.fori_loop(0, rows.shape[0], put, buffer)


def _at_once(buffer: jax.Array, rows: jax.Array, page: jax.Array, place: jax.Array) -> jax.Array:
    return buffer.at[page, :, place].set(rows, unique_indices=True, mode="promise_in_bounds")


def write_lanes(ring: Any, rows: Any, slot: jax.Array, env_id: jax.Array) -> Any:
    """Puts rows ``[T, K, ...]`` into slots ``[T, K]`` of lanes ``[K]``, no two the same; unknown lanes are dropped."""

    def one(buffer, x):
        buffer, x = jnp.asarray(buffer), jnp.asarray(x)
        page, place = jnp.divmod(slot, np.int32(buffer.shape[2]))
        lane = jnp.broadcast_to(env_id[None], slot.shape)
        return buffer.at[page, lane, place].set(x, unique_indices=True, mode="drop")

    return jax.tree.map(one, ring, rows)


def read(ring: Any, slot: jax.Array, env_id: jax.Array) -> Any:
    """Rows ``[*S, ...]`` in slots of lanes, int32 ``[*S]`` both, all of them in range."""

    def one(buffer):
        page, place = jnp.divmod(slot, np.int32(buffer.shape[2]))
        return jnp.asarray(buffer).at[page, env_id, place].get(mode="promise_in_bounds")

    return jax.tree.map(one, ring)
