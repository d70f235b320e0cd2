"""Sets of cells of a MinAtar board, one bit per cell: three words per lane hold rows 0 to 8.

    cell           word            bit
    (0, column)    words[0]        column
    (1, column)    words[0]   10 + column
    (2, column)    words[0]   20 + column
    (3, column)    words[1]        column
     ...
    (8, column)    words[2]   20 + column

In general cell ``(row, column)`` is bit ``10 * (row % 3) + column`` of word ``row // 3``. Bits 30 and 31 of every word
are 0. Row 9 is not stored: in Asterix and Seaquest nothing moves there.

For example, a board with objects in columns 2 and 7 of row 4 and nowhere else:

    column         9 8 7 6 5 4 3 2 1 0
    row 5          0 0 0 0 0 0 0 0 0 0    words[1], bits 29 to 20
    row 4          0 0 1 0 0 0 0 1 0 0    words[1], bits 19 to 10
    row 3          0 0 0 0 0 0 0 0 0 0    words[1], bits  9 to  0

    words = (0, 2**12 + 2**17, 0)

A game keeps one set per kind of object. Moving, intersecting or drawing all objects of a kind then takes a few integer
operations, independent of their number.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import flat_in_own_kernels
from jaxenv.envs._words import Words
from jaxenv.envs.minatar.minatar import SIZE

_ROWS_PER_WORD = 3
_WORD_BITS = _ROWS_PER_WORD * SIZE  # bits in use
_ROW = np.uint32(2**SIZE - 1)
_LEFT_EDGE = np.uint32(sum(1 << (SIZE * i) for i in range(_ROWS_PER_WORD)))
_RIGHT_EDGE = np.uint32(_LEFT_EDGE << np.uint32(SIZE - 1))
_ONE, _ZERO = np.uint32(1), np.uint32(0)


@tree.struct
class Bitboard(Words):
    """A set of cells in rows 0 to 8 in three words, laid out as the module docstring shows."""

    @staticmethod
    def cell(row: jax.Array, column: jax.Array) -> "Bitboard":
        """Returns the set of one cell, int32 ``[B]`` each; the empty set if ``column`` is outside the board."""
        inside = (column >= 0) & (column < SIZE)
        return _place_in_row(row, jnp.where(inside, _ONE << column.astype(jnp.uint32), _ZERO))

    @staticmethod
    def whole_row(row: jax.Array) -> "Bitboard":
        """Returns all cells of ``row``, int32 ``[B]``, 0 to 8."""
        return _place_in_row(row, jnp.full(row.shape, _ROW))

    def to_right(self) -> "Bitboard":
        """Moves every cell one column to the right; cells in the last column drop out."""
        return self._map(lambda a: (a & ~_RIGHT_EDGE) << _ONE)

    def to_left(self) -> "Bitboard":
        """Moves every cell one column to the left; cells in the first column drop out."""
        return self._map(lambda a: (a & ~_LEFT_EDGE) >> _ONE)

    def moved(self, right: "Bitboard") -> "Bitboard":
        """Moves the cells that are also in ``right`` one column to the right and all others to the left."""
        return (self & right).to_right() | (self - right).to_left()


def _place_in_row(row: jax.Array, bits: jax.Array) -> Bitboard:
    """Returns the set whose row ``row`` (int32 ``[B]``) has the ten bits ``bits`` (uint32 ``[B]``)."""
    # If the row lies above the first row of a word, the difference is negative and wraps to a large shift.
    offset = (SIZE * row).astype(jnp.uint32)
    shifts = (offset, offset - np.uint32(_WORD_BITS), offset - np.uint32(2 * _WORD_BITS))
    return Bitboard(tuple(jnp.where(shift < _WORD_BITS, bits << shift, _ZERO) for shift in shifts))


# Constants without a lane axis; they broadcast over all lanes.
_ROWS_OF_WORD = [_ROW << np.uint32(SIZE * i) for i in range(_ROWS_PER_WORD)]
ROWS = tuple(Bitboard(tuple(row if k == i else _ZERO for k in range(3))) for i in range(3) for row in _ROWS_OF_WORD)
EMPTY = Bitboard((_ZERO,) * 3)


# --- observation -----------------------------------------------------------------------------------------------------


def stack_channels(*channels: Bitboard | jax.Array) -> jax.Array:
    """Stacks sets of cells into an observation, bool ``[B, 10, 10, len(channels)]``.

    A channel given as an array, uint32 ``[B]``, fills row 9, which a `Bitboard` does not store, with its ten low bits.
    """
    # For each row, the ten bits of up to three channels are packed into one word. Every element of the observation is
    # then one bit of one of a few words. Channels of row 9 and of rows 0 to 8 share the same bits.
    row, column = np.arange(SIZE, dtype=np.uint32)[:, None], np.arange(SIZE, dtype=np.uint32)[None]
    words: list[jax.Array] = []
    masks: list[np.ndarray] = []
    num_packed = {True: 0, False: 0}
    for channel, cells in enumerate(channels):
        is_bitboard = isinstance(cells, Bitboard)
        number, third = divmod(num_packed[is_bitboard], 3)
        num_packed[is_bitboard] += 1
        if number == len(words):
            words.append(jnp.zeros((), jnp.uint32))
            masks.append(np.zeros((SIZE, SIZE, len(channels)), np.uint32))
        shift = np.uint32(SIZE * third)
        words[number] = words[number] | (_row_bits(cells) << shift)
        masks[number][:, :, channel] = np.where((row < 9) == is_bitboard, _ONE << (shift + column), _ZERO)

    def expand(*words: Any) -> jax.Array:
        lit = jnp.zeros((), jnp.uint32)
        for word, mask in zip(words, masks, strict=True):
            lit = lit | (word[:, :, None] & mask.reshape(1, SIZE, -1))
        return lit != 0

    return flat_in_own_kernels(expand, *words).reshape(-1, SIZE, SIZE, len(channels))


def unpack_rows(words: jax.Array, required: np.ndarray) -> jax.Array:
    """Returns an observation, bool ``[B, 10, 10, C]``, from a word for each row, uint32 ``[B, 10]``.

    An element is True if the word of its row has all its ``required`` bits, uint32 ``[10, 10 * C]`` or one row for all.
    """

    def image(words: jax.Array) -> jax.Array:
        return (words & required[None]) == required[None]

    return flat_in_own_kernels(image, words[:, :, None]).reshape(-1, SIZE, SIZE, required.shape[1] // SIZE)


def bit(column: jax.Array) -> jax.Array:
    """Returns the word of one column, or any other bit, uint32 of the shape of ``column``."""
    return _ONE << column.astype(jnp.uint32)


def _row_bits(cells: Bitboard | jax.Array) -> jax.Array:
    row = np.arange(SIZE, dtype=np.uint32)[None]
    if not isinstance(cells, Bitboard):
        return jnp.where(row == 9, cells[:, None], _ZERO)
    a, b, c = (word[:, None] for word in cells.words)
    word = jnp.where(row < 3, a, jnp.where(row < 6, b, jnp.where(row < 9, c, _ZERO)))
    return (word >> (np.uint32(SIZE) * (row % np.uint32(3)))) & _ROW
