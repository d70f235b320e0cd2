"""Sets of cells of a square grid, one bit a cell: a word for each row, and the same once more for each column.

Whoever looks along the rows and whoever looks along the columns finds lines of cells side by side in one word.
Cells beyond the grid are never in a set, so that a set of floor leaves walls wherever else one looks.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree

_ONE, _ZERO = np.uint32(1), np.uint32(0)


@tree.struct
class Lines:
    """``rows``: uint32 ``[B, N]``, bit x of word y is cell (x, y). ``columns``: uint32 ``[B, N]``, bit y of word x."""

    rows: jax.Array
    columns: jax.Array

    def has(self, x: jax.Array, y: jax.Array) -> jax.Array:
        """Whether cell (x, y), int32 ``[B]`` each, is in the set: bool ``[B]``."""
        return (pick(self.rows, y) >> x.astype(jnp.uint32)) & _ONE == _ONE

    def put(self, x: jax.Array, y: jax.Array) -> "Lines":
        """The set with cell (x, y) of every lane."""
        return Lines(self.rows | _bit(self.rows, y, x), self.columns | _bit(self.columns, x, y))

    def drop(self, x: jax.Array, y: jax.Array) -> "Lines":
        """The set without cell (x, y) of every lane."""
        return Lines(self.rows & ~_bit(self.rows, y, x), self.columns & ~_bit(self.columns, x, y))

    def drop_row(self, y: jax.Array) -> "Lines":
        """The set without the cells of row y of every lane."""
        return Lines(jnp.where(_is_line(self.rows, y), _ZERO, self.rows), self.columns & ~_shifted(y)[:, None])

    def drop_column(self, x: jax.Array) -> "Lines":
        """The set without the cells of column x of every lane."""
        return Lines(self.rows & ~_shifted(x)[:, None], jnp.where(_is_line(self.columns, x), _ZERO, self.columns))

    def __sub__(self, other: "Lines") -> "Lines":
        return Lines(self.rows & ~other.rows, self.columns & ~other.columns)


def pick(lines: jax.Array, number: jax.Array) -> jax.Array:
    """Line ``number`` (int32 ``[B, ...]``) of ``lines`` (``[B, N]``); zero, no cell, beyond them: uint32 ``[B, ...]``.

    Sums over all lines: with lines this few that takes no longer than to gather one.
    """
    count = lines.shape[-1]
    lines = lines.reshape(lines.shape[:1] + (1,) * (number.ndim - 1) + (count,))
    here = number[..., None] == np.arange(count, dtype=np.int32).reshape((1,) * number.ndim + (count,))
    return jnp.sum(jnp.where(here, lines, _ZERO), axis=-1, dtype=jnp.uint32)


def square(low: jax.Array, high: jax.Array, count: int) -> Lines:
    """The cells with ``low <= x < high`` and ``low <= y < high`` (int32 ``[B]`` each), in ``count`` lines."""
    number = np.arange(count, dtype=np.int32)[None]
    inside = (number >= low[:, None]) & (number < high[:, None])
    word = _shifted(high) - _shifted(low)
    lines = jnp.where(inside, word[:, None], _ZERO)
    return Lines(lines, lines)


def from_plane(plane: jax.Array) -> Lines:
    """The set of the cells that are true in a plane: bool ``[B, N, N]``, rows first."""
    bit = _ONE << np.arange(plane.shape[-1], dtype=np.uint32)
    rows = jnp.sum(jnp.where(plane, bit[None, None, :], _ZERO), axis=2, dtype=jnp.uint32)
    columns = jnp.sum(jnp.where(plane, bit[None, :, None], _ZERO), axis=1, dtype=jnp.uint32)
    return Lines(rows, columns)


def _shifted(place: jax.Array) -> jax.Array:
    return _ONE << place.astype(jnp.uint32)


def _is_line(lines: jax.Array, number: jax.Array) -> jax.Array:
    return number[:, None] == np.arange(lines.shape[-1], dtype=np.int32)[None]


def _bit(lines: jax.Array, number: jax.Array, place: jax.Array) -> jax.Array:
    return jnp.where(_is_line(lines, number), _shifted(place)[:, None], _ZERO)
