"""Sets of cells of a square grid, one bit per cell, stored twice: one word per row and one word per column.

For example, in a grid of 5 by 5 cells, the set of the cells (1, 2), (3, 2) and (3, 4):

    x        0 1 2 3 4
    y = 0    . . . . .    rows[0] = 0
    y = 1    . . . . .    rows[1] = 0
    y = 2    . # . # .    rows[2] = 2**1 + 2**3
    y = 3    . . . . .    rows[3] = 0
    y = 4    . . . # .    rows[4] = 2**3

    columns = (0, 2**2, 0, 2**2 + 2**4, 0)

An agent that faces along a row needs the cells across that row, an agent that faces along a column those across the
column. With both copies either view is a few words, each with neighbouring cells in neighbouring bits. A set never has
cells outside the grid, so a set of floor cells implies walls everywhere else.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree

_ONE, _ZERO = np.uint32(1), np.uint32(0)


@tree.struct
class CellSet:
    """A set of cells of an N by N grid, N at most 32.

    Attributes:
        rows: uint32 ``[B, N]``; bit x of word y is cell (x, y).
        columns: uint32 ``[B, N]``; bit y of word x is cell (x, y).
    """

    rows: jax.Array
    columns: jax.Array

    @staticmethod
    def square(low: jax.Array, high: jax.Array, num_lines: int) -> "CellSet":
        """Returns the cells with ``low <= x < high`` and ``low <= y < high``.

        Args:
            low: int32 ``[B]``.
            high: int32 ``[B]``.
            num_lines: N, the number of rows and columns of the grid.
        """
        number = np.arange(num_lines, dtype=np.int32)[None]
        inside = (number >= low[:, None]) & (number < high[:, None])
        word = _bit(high) - _bit(low)
        lines = jnp.where(inside, word[:, None], _ZERO)
        return CellSet(lines, lines)

    @staticmethod
    def from_plane(plane: jax.Array) -> "CellSet":
        """Returns the cells at which ``plane``, bool ``[B, N, N]`` indexed ``[lane, y, x]``, is True."""
        bit = _ONE << np.arange(plane.shape[-1], dtype=np.uint32)
        rows = jnp.sum(jnp.where(plane, bit[None, None, :], _ZERO), axis=2, dtype=jnp.uint32)
        columns = jnp.sum(jnp.where(plane, bit[None, :, None], _ZERO), axis=1, dtype=jnp.uint32)
        return CellSet(rows, columns)

    def has(self, x: jax.Array, y: jax.Array) -> jax.Array:
        """Returns whether cell (x, y), int32 ``[B]`` each, is in the set, bool ``[B]``."""
        return (pick_line(self.rows, y) >> x.astype(jnp.uint32)) & _ONE == _ONE

    def add(self, x: jax.Array, y: jax.Array) -> "CellSet":
        """Adds cell (x, y), int32 ``[B]`` each."""
        return CellSet(self.rows | _bit_in_line(self.rows, y, x), self.columns | _bit_in_line(self.columns, x, y))

    def remove(self, x: jax.Array, y: jax.Array) -> "CellSet":
        """Removes cell (x, y), int32 ``[B]`` each."""
        return CellSet(self.rows & ~_bit_in_line(self.rows, y, x), self.columns & ~_bit_in_line(self.columns, x, y))

    def remove_row(self, y: jax.Array) -> "CellSet":
        """Removes all cells of row y, int32 ``[B]``."""
        return CellSet(jnp.where(_is_line(self.rows, y), _ZERO, self.rows), self.columns & ~_bit(y)[:, None])

    def remove_column(self, x: jax.Array) -> "CellSet":
        """Removes all cells of column x, int32 ``[B]``."""
        return CellSet(self.rows & ~_bit(x)[:, None], jnp.where(_is_line(self.columns, x), _ZERO, self.columns))

    def __sub__(self, other: "CellSet") -> "CellSet":
        return CellSet(self.rows & ~other.rows, self.columns & ~other.columns)


def pick_line(lines: jax.Array, number: jax.Array) -> jax.Array:
    """Returns one word of ``rows`` or ``columns``, uint32 ``[B, ...]``; 0 outside the grid.

    It masks and sums all lines, which for at most 32 of them takes no longer than a gather.

    Args:
        lines: uint32 ``[B, N]``.
        number: index of the line, int32 ``[B, ...]``, any value.
    """
    num_lines = lines.shape[-1]
    lines = lines.reshape(lines.shape[:1] + (1,) * (number.ndim - 1) + (num_lines,))
    selected = number[..., None] == np.arange(num_lines, dtype=np.int32).reshape((1,) * number.ndim + (num_lines,))
    return jnp.sum(jnp.where(selected, lines, _ZERO), axis=-1, dtype=jnp.uint32)


def _bit(number: jax.Array) -> jax.Array:
    return _ONE << number.astype(jnp.uint32)


def _is_line(lines: jax.Array, number: jax.Array) -> jax.Array:
    return number[:, None] == np.arange(lines.shape[-1], dtype=np.int32)[None]


def _bit_in_line(lines: jax.Array, line: jax.Array, bit: jax.Array) -> jax.Array:
    return jnp.where(_is_line(lines, line), _bit(bit)[:, None], _ZERO)
