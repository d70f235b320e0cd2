"""A ring of rows per lane, stored in pages: 16 consecutive rows of one lane, then 16 rows of the next lane.

Adding a row to every lane and reading a window of one lane favour opposite layouts. With the lanes innermost, a window
of 64 rows touches 64 places in memory; with the rows innermost, a new row of 1024 lanes touches 1024. With pages, both
touch few cache lines. Slot s of lane b is stored at ``[s // P, b, s % P]``.

A leaf of the ring is an array, or `Bits`.
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
from jaxenv.core._compiled import compiled_once
from jaxenv.tree import Tree

PAGE = 16


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


def empty(capacity: int, rows: Any, pack_bits: bool = False) -> Any:
    """Returns zeros ``[C / P, B, P, ...]`` per leaf ``[T, B, ...]``; P is the greatest common divisor of C and 16.

    With ``pack_bits`` leaves of several flags a row become `Bits`.
    """
    page_size = math.gcd(capacity, PAGE)

    def empty_leaf(x: jax.Array) -> jax.Array | Bits:
        num_envs, *shape = x.shape[1:]
        pages, n = (capacity // page_size, num_envs, page_size), math.prod(shape)
        if pack_bits and x.dtype == bool and n > 1:
            return Bits(jnp.zeros((*pages, -(-n // 8)), jnp.uint8), tuple(shape))
        return jnp.zeros((*pages, *shape), x.dtype)

    return jax.tree.map(empty_leaf, rows)


def row_types(ring: Any) -> Any:
    """Returns shape and dtype of one row of one lane, for each leaf."""

    def row_type(leaf: Tree) -> jax.ShapeDtypeStruct:
        if isinstance(leaf, Bits):
            return jax.ShapeDtypeStruct(leaf.row_shape, bool)
        return jax.ShapeDtypeStruct(leaf.shape[3:], leaf.dtype)

    return _map(row_type, ring)


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


def write(ring: Any, rows: Any, slot: jax.Array) -> Any:
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


def read(ring: Any, slot: jax.Array, env_id: jax.Array) -> Any:
    """Reads rows ``[*S, ...]`` in slots of lanes, int32 ``[*S]`` both and in range."""

    def read_leaf(leaf: Tree) -> jax.Array:
        if isinstance(leaf, Bits):
            return leaf.unpack(read_leaf(leaf.bytes))
        buffer = jnp.asarray(leaf)
        page, offset = jnp.divmod(slot, np.int32(buffer.shape[2]))
        return buffer.at[page, env_id, offset].get(mode="promise_in_bounds")

    return _map(read_leaf, ring)
