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

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import in_one_kernel

_ONE, _ZERO = np.uint32(1), np.uint32(0)


@tree.struct
class CellSet:
    """A set of cells of an N by N grid, N at most 32."""

    rows: jax.Array  # uint32[B, N]; bit x of word y is cell (x, y)
    columns: jax.Array  # uint32[B, N]; bit y of word x is cell (x, y)

    @staticmethod
    def rectangle(left: Any, right: Any, top: Any, bottom: Any, num_lines: int) -> "CellSet":
        """Returns the cells of N lines with ``left <= x < right`` and ``top <= y < bottom``, lines ``[B, ..., N]``.

        The bounds are int32 ``[B, ...]`` in 0 .. N; the set is empty unless ``left <= right``.
        """
        left, right, top, bottom = (jnp.expand_dims(bound, -1) for bound in (left, right, top, bottom))
        number = np.arange(num_lines, dtype=np.int32).reshape((1,) * (left.ndim - 1) + (num_lines,))
        in_rows, in_columns = (number >= top) & (number < bottom), (number >= left) & (number < right)
        across, down = _bit(right) - _bit(left), _bit(bottom) - _bit(top)
        return CellSet(jnp.where(in_rows, across, _ZERO), jnp.where(in_columns, down, _ZERO))

    @staticmethod
    def from_plane(plane: jax.Array) -> "CellSet":
        """Returns the cells at which ``plane``, bool ``[B, N, N]`` indexed ``[lane, y, x]``, is True."""
        bit = _ONE << np.arange(plane.shape[-1], dtype=np.uint32)
        rows = jnp.sum(jnp.where(plane, bit[None, None, :], _ZERO), axis=2, dtype=jnp.uint32)
        columns = jnp.sum(jnp.where(plane, bit[None, :, None], _ZERO), axis=1, dtype=jnp.uint32)
        return CellSet(rows, columns)

    @staticmethod
    def from_cells(cells: jax.Array, num_lines: int) -> "CellSet":
        """Returns the cells of these numbers, x + 32 * y: int32 ``[B, K]``, distinct; negative ones are left out."""
        line = np.arange(num_lines, dtype=np.int32)[None, :, None]
        x, y = (cells & 31)[:, None, :], (cells >> 5)[:, None, :]
        inside = (cells >= 0)[:, None, :]
        rows, columns = (jnp.where(inside & (a == line), _bit(b), _ZERO) for a, b in ((y, x), (x, y)))
        return CellSet(jnp.sum(rows, axis=2, dtype=jnp.uint32), jnp.sum(columns, axis=2, dtype=jnp.uint32))

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

    def __and__(self, other: "CellSet") -> "CellSet":
        return CellSet(self.rows & other.rows, self.columns & other.columns)

    def __or__(self, other: "CellSet") -> "CellSet":
        return CellSet(self.rows | other.rows, self.columns | other.columns)

    def before(self, direction: int) -> "CellSet":
        """Returns the cells whose next cell in a direction (0 right, 1 down, 2 left, 3 up) is in the set."""
        across, along = (self.rows, self.columns) if direction % 2 == 0 else (self.columns, self.rows)
        if direction < 2:
            across, along = across >> _ONE, jnp.pad(along[:, 1:], ((0, 0), (0, 1)))
        else:
            across, along = across << _ONE, jnp.pad(along[:, :-1], ((0, 0), (1, 0)))
        return CellSet(across, along) if direction % 2 == 0 else CellSet(along, across)

    def count(self) -> jax.Array:
        """Returns the number of cells, int32 ``[B]``."""
        # The last of the sums that `nth_cell` computes, so XLA computes them once for both.
        return running_sum(_count_bits(self.rows))[:, -1]


def plane_of(rows: Any, num_columns: int) -> Any:
    """Returns the map of a set of cells, bool ``[..., N, num_columns]``, given its rows, uint32 ``[..., N]``."""
    bits = np.arange(num_columns, dtype=np.uint32).reshape((1,) * rows.ndim + (num_columns,))
    return (rows[..., None] >> bits) & _ONE == _ONE


def nth_cell(rows: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns x and y (int32 ``[B]`` each) of cell ``number`` in some rows (uint32 ``[B, N]``), counted row by row."""
    in_row = _count_bits(rows)
    up_to, number = running_sum(in_row), number[:, None]
    before = up_to - in_row
    above, here = up_to <= number, (before <= number) & (number < up_to)
    # One reduction with three results: the number of rows above the cell, its row, and its number in that row.
    y, row, rank = jax.lax.reduce(
        (above.astype(jnp.int32), jnp.where(here, rows, _ZERO), jnp.where(here, number - before, 0)),
        (np.int32(0), _ZERO, np.int32(0)),
        lambda x, y: tuple(map(jax.lax.add, x, y)),
        (1,),
    )
    return nth_bit(row, rank), y


def running_sum(counts: jax.Array) -> jax.Array:
    """Returns the sums of each number and those before it, int32 ``[B, N]``; for few numbers, which it masks."""
    number = np.arange(counts.shape[1], dtype=np.int32)
    before = (number[None, :] <= number[:, None])[None]
    return jnp.sum(jnp.where(before, counts[:, None, :], 0), axis=2, dtype=jnp.int32)


def pick_line(lines: jax.Array, number: jax.Array) -> jax.Array:
    """Returns word ``number``, any int32 ``[B, ...]``, of ``lines``, uint32 ``[B, N]``; 0 outside the grid.

    It masks and sums all lines, which for at most 32 of them takes no longer than a gather.
    """
    num_lines = lines.shape[-1]
    lines = lines.reshape(lines.shape[:1] + (1,) * (number.ndim - 1) + (num_lines,))
    selected = number[..., None] == np.arange(num_lines, dtype=np.int32).reshape((1,) * number.ndim + (num_lines,))
    return jnp.sum(jnp.where(selected, lines, _ZERO), axis=-1, dtype=jnp.uint32)


def nth_bit(word: jax.Array, number: jax.Array) -> jax.Array:
    """Returns the position of the 1 with this number in a word, both counted from the lowest bit: int32 ``[B]``."""
    return in_one_kernel(nth_bit_of, word, number)


def nth_bit_of(word: jax.Array, number: jax.Array) -> jax.Array:
    """Computes `nth_bit` on scalars, for `in_one_kernel`, by a binary search in five steps."""
    position = jnp.zeros_like(number)
    for half in (16, 8, 4, 2, 1):
        lower = _count_bits((word >> position.astype(jnp.uint32)) & np.uint32(2**half - 1))
        is_upper = number >= lower
        number = jnp.where(is_upper, number - lower, number)
        position = jnp.where(is_upper, position + np.int32(half), position)
    return position


def reversed_bits(word: jax.Array, length: int) -> jax.Array:
    """Reverses the order of the bits in each part of a word, uint32; the parts have ``length`` bits, a power of 2."""
    for by in (2**i for i in range(length.bit_length() - 1)):
        mask = np.uint32((2**32 - 1) // (2**by + 1))
        word = ((word & mask) << np.uint32(by)) | ((word >> np.uint32(by)) & mask)
    return word


def _count_bits(words: jax.Array) -> jax.Array:
    return jax.lax.population_count(words).astype(jnp.int32)


def _bit(number: jax.Array) -> jax.Array:
    return _ONE << number.astype(jnp.uint32)


def _is_line(lines: jax.Array, number: jax.Array) -> jax.Array:
    return number[:, None] == np.arange(lines.shape[-1], dtype=np.int32)[None]


def _bit_in_line(lines: jax.Array, line: jax.Array, bit: jax.Array) -> jax.Array:
    return jnp.where(_is_line(lines, line), _bit(bit)[:, None], _ZERO)
