"""Sets of cells in rows 0 to 8 of a MinAtar board, where objects come and go: one bit a cell, three words a set.

Objects that move in step are one set, so that moving, meeting and showing all of them takes a few integer operations,
however many there are. Words of one lane each, and not an axis of rows, are what compilers make fast loops of.
"""

import functools
import operator
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.envs.minatar.game import SIZE

_WORD = 3 * SIZE  # bits in use: three rows, bit 10 * (row - first row) + column
_ROW = np.uint32(2**SIZE - 1)
_LEFT_EDGE = np.uint32(sum(1 << (SIZE * i) for i in range(3)))
_RIGHT_EDGE = np.uint32(_LEFT_EDGE << np.uint32(SIZE - 1))
_ONE, _ZERO = np.uint32(1), np.uint32(0)


@tree.struct
class Cells:
    """Cells of rows 0 to 2, 3 to 5 and 6 to 8: three words, each uint32 ``[B]``."""

    words: tuple[jax.Array, jax.Array, jax.Array]

    def __and__(self, other: "Cells") -> "Cells":
        return _each(lambda a, b: a & b, self, other)

    def __or__(self, other: "Cells") -> "Cells":
        return _each(lambda a, b: a | b, self, other)

    def __xor__(self, other: "Cells") -> "Cells":
        return _each(lambda a, b: a ^ b, self, other)

    def __sub__(self, other: "Cells") -> "Cells":
        return _each(lambda a, b: a & ~b, self, other)

    def where(self, mask: jax.Array) -> "Cells":
        """The same set in the lanes of ``mask`` (bool ``[B]``), none in the others."""
        return _each(lambda a: jnp.where(mask, a, _ZERO), self)

    def any(self) -> jax.Array:
        """Whether the set holds a cell, bool ``[B]``."""
        a, b, c = self.words
        return (a | b | c) != 0

    def count(self) -> jax.Array:
        """How many cells the set holds, int32 ``[B]``."""
        a, b, c = (jax.lax.population_count(word) for word in self.words)
        return (a + b + c).astype(jnp.int32)

    def to_right(self) -> "Cells":
        """Every cell one column to the right; beyond the edge it is gone."""
        return _each(lambda a: (a & ~_RIGHT_EDGE) << _ONE, self)

    def to_left(self) -> "Cells":
        """Every cell one column to the left; beyond the edge it is gone."""
        return _each(lambda a: (a & ~_LEFT_EDGE) >> _ONE, self)

    def moved(self, right: "Cells") -> "Cells":
        """Cells of ``right`` one column to the right, all others to the left."""
        return (self & right).to_right() | (self - right).to_left()


def _each(fn: Callable, *sets: Cells) -> Cells:
    a, b, c = (fn(*words) for words in zip(*(s.words for s in sets), strict=True))
    return Cells((a, b, c))


def union(*sets: Cells) -> Cells:
    """All cells of any of the sets."""
    return functools.reduce(operator.or_, sets)


def none(shape: tuple[int, ...]) -> Cells:
    """No cell, in ``shape`` lanes."""
    return Cells((jnp.zeros(shape, jnp.uint32), jnp.zeros(shape, jnp.uint32), jnp.zeros(shape, jnp.uint32)))


def cell(row: jax.Array, column: jax.Array) -> Cells:
    """The cell at ``row`` (0 to 8) and ``column``, each int32 ``[B]``; none for a column outside the board."""
    inside = (column >= 0) & (column < SIZE)
    return _bits(row, jnp.where(inside, _ONE << column.astype(jnp.uint32), _ZERO))


def whole_row(row: jax.Array) -> Cells:
    """All cells of a row, int32 ``[B]``, 0 to 8."""
    return _bits(row, jnp.full(row.shape, _ROW))


def _bits(row: jax.Array, bits: jax.Array) -> Cells:
    # For a row above a word's first the shift is negative, and wraps to a large one.
    above = (SIZE * row).astype(jnp.uint32)
    shifts = (above, above - np.uint32(_WORD), above - np.uint32(2 * _WORD))
    a, b, c = (jnp.where(shift < _WORD, bits << shift, _ZERO) for shift in shifts)
    return Cells((a, b, c))


def _row(number: int) -> Cells:
    bits = _ROW << np.uint32(SIZE * (number % 3))
    return Cells(tuple(bits if number // 3 == k else _ZERO for k in range(3)))  # type: ignore[arg-type]


ROWS = tuple(_row(number) for number in range(9))  # all cells of each row, for every lane
NONE = Cells((_ZERO, _ZERO, _ZERO))  # type: ignore[arg-type]


# --- what is shown ---------------------------------------------------------------------------------------------------


def board(channels: tuple[Cells | jax.Array, ...]) -> jax.Array:
    """The board whose channels show sets of cells: bool ``[B, 10, 10, len(channels)]``.

    A channel that is an array, uint32 ``[B]``, shows its ten low bits in row 9, which sets do not hold.
    """
    # A row's bits of up to three channels are one word, so that an element of the board is a bit of one of few words.
    # Channels of row 9 and of the other rows take the same places.
    row, column = np.arange(SIZE, dtype=np.uint32)[:, None], np.arange(SIZE, dtype=np.uint32)[None]
    words: list[jax.Array] = []
    places: list[np.ndarray] = []
    used = {True: 0, False: 0}
    for channel, shown in enumerate(channels):
        held = isinstance(shown, Cells)
        number, third = divmod(used[held], 3)
        used[held] += 1
        if number == len(words):
            words.append(jnp.zeros((), jnp.uint32))
            places.append(np.zeros((SIZE, SIZE, len(channels)), np.uint32))
        shift = np.uint32(SIZE * third)
        words[number] = words[number] | (_row_bits(shown) << shift)
        places[number][:, :, channel] = np.where((row < 9) == held, _ONE << (shift + column), _ZERO)
    lit = jnp.zeros((), jnp.uint32)
    for word, place in zip(words, places, strict=True):
        lit = lit | (word[:, :, None] & place.reshape(1, SIZE, -1))
    return (lit != 0).reshape(-1, SIZE, SIZE, len(channels))


def _row_bits(shown: Cells | jax.Array) -> jax.Array:
    """The bits of all ten rows, uint32 ``[B, 10]``."""
    row = np.arange(SIZE, dtype=np.uint32)[None]
    if not isinstance(shown, Cells):
        return jnp.where(row == 9, shown[:, None], _ZERO)
    a, b, c = (word[:, None] for word in shown.words)
    word = jnp.where(row < 3, a, jnp.where(row < 6, b, jnp.where(row < 9, c, _ZERO)))
    return (word >> (np.uint32(SIZE) * (row % np.uint32(3)))) & _ROW
