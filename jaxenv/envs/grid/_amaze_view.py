"""The agent's view in AMaze: the 5 by 5 cells ahead of it, rotated so that ahead is up; nothing hides a cell.

A set of cells of the view is one word per lane. Its bits follow the image, whose first axis is the column:

    column           0  1  2  3  4
    4 steps ahead    0  5 10 15 20
    3 steps ahead    1  6 11 16 21
    2 steps ahead    2  7 12 17 22
    1 step ahead     3  8 13 18 23
    agent's row      4  9  A 19 24    the agent has view index 14

All functions but `encode` are elementwise, for `in_one_kernel`. Their ``rows`` are the N rows of a set of cells of the
grid, uint32 ``[B]`` each: bit x of row y is cell (x, y).
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.envs.grid._cell_set import reversed_bits
from jaxenv.envs.grid._view import Pose, from_agent

SIZE = 5  # cells per side
_HALF = SIZE // 2
_ZERO, _ONE = np.uint32(0), np.uint32(1)
_ROW = np.uint32(2**SIZE - 1)
_PLACES = np.arange(SIZE**2).reshape(SIZE, SIZE)  # of the bits in a word

OUT_OF_VIEW = np.int32(-1)
# Object, colour and state, as in MiniGrid, and for each byte of the image the view index of its cell.
_EMPTY, _WALL, _GOAL = (np.tile(np.array(code, np.uint32), SIZE**2) for code in ((1, 0, 0), (2, 5, 0), (8, 1, 0)))
_INDICES = np.repeat(np.arange(SIZE**2, dtype=np.int32), 3)
_BITS = _INDICES.astype(np.uint32)


def line(rows: Sequence[jax.Array], y: jax.Array) -> jax.Array:
    """Returns row y, int32 ``[B]``; 0 outside the grid."""
    found = jnp.zeros_like(rows[0])
    for number, row in enumerate(rows):
        found = jnp.where(y == number, row, found)
    return found


def in_view(rows: Sequence[jax.Array], agent: Pose) -> jax.Array:
    """Returns the cells of the view that are in a set of cells of the grid, uint32 ``[B]``."""
    direction = agent.direction

    def first(position: jax.Array, onward: int, back: int) -> jax.Array:
        """Returns the lowest coordinate of the view, plus the four cells by which it may lie outside the grid."""
        ahead = jnp.where(direction == onward, np.int32(SIZE - 1), np.int32(_HALF))
        return (position + jnp.where(direction == back, np.int32(0), ahead)).astype(jnp.uint32)

    # Facing right or down the view begins at the agent, facing left or up it ends there.
    left, top = first(agent.x, onward=0, back=2), first(agent.y, onward=1, back=3)
    word = jnp.zeros_like(left)
    for i, row in enumerate(_five_rows(rows, top)):
        word = word | ((((row << np.uint32(SIZE - 1)) >> left) & _ROW) << np.uint32(SIZE * i))
    # The word has the cells row by row, as the grid. The image of an agent that faces up has them column by column.
    # Facing right, it has the same rows, each from the right to the left. The two other images are these two backwards.
    sideways = (direction & 1) == 0
    word = jnp.where(sideways, _moved(word, _PLACES[:, ::-1]), _moved(word, _PLACES.T))
    return jnp.where((direction == 1) | (direction == 2), reversed_bits(word, 32) >> np.uint32(32 - SIZE**2), word)


def index(x: jax.Array, y: jax.Array, agent: Pose) -> jax.Array:
    """Returns the view index of cell (x, y) of the grid, int32 ``[B]``, or ``OUT_OF_VIEW``."""
    ahead, column, within = from_agent(x, y, agent, SIZE)
    return jnp.where(within, SIZE * column + (SIZE - 1) - ahead, OUT_OF_VIEW)


def encode(floor: jax.Array, goal: jax.Array) -> jax.Array:
    """Returns the bytes of the image, uint8 ``[B, 75]``, for the floor in view and the view index of the goal."""
    image = jnp.where((floor[:, None] >> _BITS[None]) & _ONE == _ONE, _EMPTY[None], _WALL[None])
    return jnp.where(goal[:, None] == _INDICES[None], _GOAL[None], image).astype(jnp.uint8)


def _five_rows(rows: Sequence[jax.Array], start: jax.Array) -> list[jax.Array]:
    """Returns rows ``start - 4`` to ``start`` (uint32 ``[B]``), 0 outside the grid, by moving all rows bit by bit."""
    lines: list[Any] = [_ZERO] * (SIZE - 1) + list(rows)
    for bit in reversed(range((len(lines) - 1).bit_length())):
        distance, moves = 2**bit, start & np.uint32(2**bit) != 0
        needed = SIZE + distance - 1
        lines = lines + [_ZERO] * (needed + distance - len(lines))
        lines = [jnp.where(moves, lines[i + distance], lines[i]) for i in range(needed)]
    return lines


def _moved(word: jax.Array, places: np.ndarray) -> jax.Array:
    """Returns a word with bit i at ``places[i]``; all bits that move by the same distance move at once."""
    out, distances = jnp.zeros_like(word), places.ravel() - np.arange(SIZE**2)
    for by in np.unique(distances).tolist():
        bits = word & np.uint32(sum(1 << i for i in np.flatnonzero(distances == by).tolist()))
        out = out | (bits << np.uint32(by) if by >= 0 else bits >> np.uint32(-by))
    return out
