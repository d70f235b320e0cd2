"""One player slides all tiles of a board of 4 by 4 cells to one side; equal neighbours merge into their sum.

Reference: Pgx's ``2048`` 2.6.0 (tests/envs/board/test_2048.py contains games that it played), with G. Cirulli's rules.

The tiles slide until another tile or the side stops them. Two equal tiles that meet merge, each tile once in a move,
the nearest to the side first. After each move a tile appears in a random free cell: 4 with ``four_probability``,
otherwise 2.

Observation   int8[4, 4]   the exponent of each tile, 1 for 2 to 17 for 131072; 0 for a free cell
Action        int32        the side: 0 left, 1 up, 2 right, 3 down
Reward        float32      the sum of the tiles made by merging; -1 for an illegal move, one that moves no tile
Starts        with two random tiles
Terminates    when no tile can move, or on an illegal move
Time limit    none; a game has at most 131,068 moves, as each adds a tile of at least 2
env_info      action_mask: bool[4], the legal actions, all when the game is over; invalid_move: bool, whether an
              illegal one ended it
"""

import itertools
import operator
from functools import partial, reduce
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, INK, NIGHT, ORANGE, PAPER, PURPLE, RED, SAND, TEAL, WHITE, Canvas, mix
from jaxenv.core import Task, Transition, in_one_kernel
from jaxenv.tree import Tree

_SIZE, _LARGEST = 4, 17
_U = np.uint32
_BITS = _U(1) << np.arange(4, dtype=np.uint32)  # of actions
_ONES = _U(0x01010101)  # 1 in each byte of a word
Rows: TypeAlias = tuple[Any, Any, Any, Any]


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    four_probability: float = tree.leaf(default=0.1, low=0, high=1, doc="probability that a new tile is 4 instead of 2")


@tree.struct
class State:
    """The board and what can be done on it."""

    rows: Rows  # uint32[B] each: the exponents of the tiles of a row from left to right, from the lowest byte on
    moves: jax.Array  # uint32[B], bit i for action i: the legal actions, all of them when the game is over


class Game2048(Task):
    """2048 for one player; the module docstring is the specification."""

    params: Params = Params()
    action_names = ("left", "up", "right", "down")
    summed_entries = frozenset({"invalid_move"})

    def initial(self, stream: random.Stream) -> State:
        empty, words = jnp.zeros(stream.shape, jnp.uint32), random.separate_bits(stream, 4)
        return State(*in_one_kernel(_start, empty, words, self.params.four_probability))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        words = random.separate_bits(stream, 2)
        probability = self.params.four_probability
        rows, moves, gained, legal, over = in_one_kernel(_move, state.rows, action, words, probability)
        reward = jnp.where(legal, gained.astype(jnp.float32), np.float32(-1))
        return Transition(State(rows, moves), reward, over, {"invalid_move": ~legal})

    def observe(self, state: State) -> jax.Array:
        return jax.lax.bitcast_convert_type(jnp.stack(state.rows, axis=-1), jnp.int8)

    def state_info(self, state: State) -> dict[str, Tree]:
        return {"action_mask": (state.moves[:, None] & _BITS[None]) != _U(0)}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((_SIZE, _SIZE), np.int8, 0, _LARGEST, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(4, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        kinds = self.observe(state).astype(jnp.int32)
        return canvas.fill(NIGHT).tiles(kinds, [partial(_tile, exponent=i) for i in range(_LARGEST + 1)])


def _start(empty: jax.Array, words: tuple[Any, ...], probability: Any) -> tuple[Rows, Any]:
    """Returns a board with two random tiles, and its legal actions."""
    rows = _with_tile((empty, empty, empty, empty), words[0], words[1], probability)
    rows = _with_tile(rows, words[2], words[3], probability)
    return rows, _legal(rows)


def _move(rows: Rows, action: Any, words: tuple[Any, ...], probability: Any) -> tuple[Rows, Any, Any, Any, Any]:
    """Returns the board and its legal actions after a move, the sum of the tiles made, whether the move was legal and
    whether it ended the game.
    """
    # A line leads from the side to the opposite one. Its cells have the same byte of the four words.
    is_row, is_reversed = _bytes((action & np.int32(1)) == 0), _bytes(action >= np.int32(2))
    lines = _where(is_row, _transposed(rows), rows)
    lines, gained = _merged(_slid(_where(is_reversed, lines[::-1], lines)))
    lines = _where(is_reversed, lines[::-1], lines)
    moved = _where(is_row, _transposed(lines), lines)
    legal = reduce(operator.or_, (a ^ b for a, b in zip(rows, moved, strict=True))) != _U(0)
    rows = _where(_bytes(legal), _with_tile(moved, words[0], words[1], probability), rows)
    moves = _legal(rows)
    over = ~legal | (moves == _U(0))
    return rows, jnp.where(over, _U(15), moves), gained, legal, over


def _slid(lines: Rows) -> Rows:
    a, b, c, d = lines
    c, d = _where(_filled(c), (c, d), (d, _U(0)))
    b, c, d = _where(_filled(b), (b, c, d), (c, d, _U(0)))
    a, b, c, d = _where(_filled(a), (a, b, c, d), (b, c, d, _U(0)))
    return a, b, c, d


def _merged(lines: Rows) -> tuple[Rows, Any]:
    """Merges equal neighbours of lines without gaps, from the start on; also returns the sum of the new tiles."""
    a, b, c, d = lines
    ab = _filled(a) & ~_filled(a ^ b)
    bc = _filled(b) & ~_filled(b ^ c) & ~ab
    cd = _filled(c) & ~_filled(c ^ d) & ~bc
    a, b, c, d = a + (ab & _ONES), b + (bc & _ONES), c + (cd & _ONES), d & ~cd
    gained = _sum_of_tiles((a & ab) | (b & bc)) + _sum_of_tiles(c & cd)
    # The tiles behind a pair come one cell nearer.
    b, c, d = _where(ab, (c, d, _U(0)), _where(bc, (b, d, _U(0)), (b, c, d)))
    return (a, b, c, d), gained


def _sum_of_tiles(exponents: Any) -> Any:
    tiles = (_U(1) << ((exponents >> _U(shift)) & _U(31)) for shift in (0, 8, 16, 24))
    return reduce(operator.add, (tile & ~_U(1) for tile in tiles))  # 0 for a free cell


def _legal(rows: Rows) -> Any:
    """Returns the actions that move a tile: bit i for action i."""
    left = right = up = down = _U(0)
    for row in rows:
        lower, higher = _slides(row & _U(0x00FFFFFF), row >> _U(8))
        left, right = left | lower, right | higher
    for row, below in itertools.pairwise(rows):
        lower, higher = _slides(row, below)
        up, down = up | lower, down | higher
    found = (jnp.where(cells != _U(0), bit, _U(0)) for cells, bit in zip((left, up, right, down), _BITS, strict=True))
    return reduce(operator.or_, found)


def _slides(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns in which bytes the tile of ``b`` can move to ``a``, and the one of ``a`` to ``b``."""
    has_a, has_b = _filled(a), _filled(b)
    merge = has_a & has_b & ~_filled(a ^ b)
    return (has_b & ~has_a) | merge, (has_a & ~has_b) | merge


def _with_tile(rows: Rows, word: Any, kind: Any, probability: Any) -> Rows:
    """Puts a tile in a free cell by two random words; a full board stays as it is."""
    free = [~_filled(row) & _ONES for row in rows]
    counts = [jax.lax.population_count(row) for row in free]
    # The number of the cell among the free cells, row by row, from 1.
    rank = random.high_product(word, reduce(operator.add, counts)) + _U(1)
    tile = jnp.where(random.unit(kind) < probability, _U(2), _U(1)) * _ONES
    found = []
    for row, cells, count in zip(rows, free, counts, strict=True):
        wanted = jnp.where((rank > _U(0)) & (rank <= count), rank, _U(127)) * _ONES
        numbers = cells * _ONES  # of free cells in the row up to each cell
        found.append(row | (~_filled(numbers ^ wanted) & (cells * _U(255)) & tile))
        rank = rank - count  # wraps to a large number behind the row with the cell
    return tuple(found)


def _transposed(rows: Rows) -> Rows:
    """Exchanges rows and columns, first of bytes, then of pairs of bytes."""
    a, b, c, d = rows
    odd, half = _U(0xFF00FF00), _U(0xFFFF0000)
    a, b = (a & ~odd) | ((b & ~odd) << _U(8)), ((a & odd) >> _U(8)) | (b & odd)
    c, d = (c & ~odd) | ((d & ~odd) << _U(8)), ((c & odd) >> _U(8)) | (d & odd)
    a, c = (a & ~half) | (c << _U(16)), (a >> _U(16)) | (c & half)
    b, d = (b & ~half) | (d << _U(16)), (b >> _U(16)) | (d & half)
    return a, b, c, d


def _filled(word: Any) -> Any:
    """Returns 255 in the bytes that are not 0; all are below 128."""
    return (((word + _U(0x7F7F7F7F)) >> _U(7)) & _ONES) * _U(255)


def _bytes(flag: Any) -> Any:
    """Returns 255 in all bytes where a flag is set, else 0."""
    return jnp.where(flag, ~_U(0), _U(0))


def _where(mask: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> Any:
    """Chooses the bytes of ``a`` in which the mask is 255, and those of ``b`` in which it is 0."""
    return tuple((x & mask) | (y & ~mask) for x, y in zip(a, b, strict=True))


# --- the picture -----------------------------------------------------------------------------------------------------

_STOPS = (PAPER, SAND, GOLD, ORANGE, RED, PURPLE, BLUE, TEAL)  # of every second power
_COLOURS = [mix(NIGHT, WHITE, 0.07)]
_COLOURS += [mix(_STOPS[i // 2 % 8], _STOPS[(i + 1) // 2 % 8], 0.5) for i in range(_LARGEST)]


def _tile(canvas: Canvas, exponent: int) -> Canvas:
    colour = _COLOURS[exponent]
    canvas = canvas.box(0.5, 0.5, 0.92, 0.92, colour, corner=0.1)
    if not exponent:
        return canvas
    number = str(2**exponent)
    height = min(0.4, 0.85 / len(number))
    ink = INK if colour.sum() > 1.75 else WHITE
    return canvas.text(number, 0.5, 0.5 - height / 2, height, ink, align=0.5)
