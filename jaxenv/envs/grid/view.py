"""What an agent in a grid sees: the 7 by 7 cells ahead of it, turned so that ahead is up, walls hiding what is behind.

The reference is ``MiniGridEnv.gen_obs`` of MiniGrid 3.2.0, its rule of visibility included.

The agent stands in the middle of the last row, at column 3. A cell of the view has a *place*, 8 * (steps ahead) +
column, and a set of cells of the view is two words, uint32 ``[B]`` each: bit p of the first is place p, bit p of the
second place 32 + p. A row of the view is a byte, of which the highest bit is not used.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.envs.grid.lines import Lines, pick

Words: TypeAlias = tuple[jax.Array, jax.Array]

SIZE = 7  # cells along either side
_HALF = SIZE // 2
_ROW = np.uint32(2**SIZE - 1)
_ONE = np.uint32(1)

OWN = np.int32(_HALF)  # the agent's own place
OUT_OF_VIEW = np.int32(-1)
# The place of every cell of an image, whose first axis are the columns and whose last row is the agent's.
PLACES = (8 * (SIZE - 1 - np.arange(SIZE))[None, :] + np.arange(SIZE)[:, None]).astype(np.int32)


@tree.struct
class Pose:
    """Where the agent stands and looks, int32 ``[B]`` each; directions 0 to 3: right, down, left, up (y grows down)."""

    x: jax.Array
    y: jax.Array
    direction: jax.Array

    @property
    def heading(self) -> tuple[jax.Array, jax.Array]:
        """The step ahead along x and along y."""
        right, down, left, up = ((self.direction == i).astype(jnp.int32) for i in range(4))
        return right - left, down - up


def cells(lines: Lines, pose: Pose) -> Words:
    """The cells of the view that are in a set of cells of the grid."""
    along_x = (pose.direction == 0) | (pose.direction == 2)
    across = jnp.where(along_x[:, None], lines.columns, lines.rows)
    start, middle = jnp.where(along_x, pose.x, pose.y), jnp.where(along_x, pose.y, pose.x)
    onward = jnp.where(pose.direction < 2, np.int32(1), np.int32(-1))
    steps = np.arange(SIZE, dtype=np.int32)[None]
    rows = pick(across, start[:, None] + onward[:, None] * steps)
    # Shifted first to the left: the view may reach beyond the edge, where no cell is.
    rows = ((rows << np.uint32(_HALF)) >> middle.astype(jnp.uint32)[:, None]) & _ROW
    near, far = _packed([rows[:, ahead] for ahead in range(SIZE)])
    turned = (pose.direction == 1) | (pose.direction == 2)
    return jnp.where(turned, _mirrored(near), near), jnp.where(turned, _mirrored(far), far)


def place(x: jax.Array, y: jax.Array, pose: Pose) -> jax.Array:
    """The place of cell (x, y) of the grid, int32 ``[B]``; ``OUT_OF_VIEW`` where it is not in the view."""
    ahead_x, ahead_y = pose.heading
    ahead = ahead_x * (x - pose.x) + ahead_y * (y - pose.y)
    column = ahead_x * (y - pose.y) - ahead_y * (x - pose.x) + np.int32(_HALF)
    within = (ahead >= 0) & (ahead < SIZE) & (column >= 0) & (column < SIZE)
    return jnp.where(within, 8 * ahead + column, OUT_OF_VIEW)


def without(words: Words, place: jax.Array) -> Words:
    """The set without the cell at a place, if that is in the view."""
    bit = _ONE << (place & 31).astype(jnp.uint32)
    near, far = words
    return jnp.where(place >> 5 == 0, near & ~bit, near), jnp.where(place >> 5 == 1, far & ~bit, far)


def visible(clear: Words) -> Words:
    """The cells that the agent sees where ``clear`` are those that let it see on: MiniGrid's rule, row by row.

    Sight spreads sideways through clear cells, first to the right, then to the left, and from each clear cell that it
    spreads from to the row ahead: straight on, and one cell over in the direction in which it spreads. A cell at the
    end of the row spreads in one direction only. The rule lets an agent see round corners, which is MiniGrid's choice.
    """
    seen = jnp.full_like(clear[0], np.uint32(1 << _HALF))
    rows = []
    for ahead in range(SIZE):
        open_ = (clear[ahead // 4] >> np.uint32(8 * (ahead % 4))) & _ROW
        to_right, to_left = open_ & (_ROW >> _ONE), open_ & (_ROW - _ONE)
        seen = _spread(seen, to_right << _ONE, lambda word, by: word << by)
        onward_right = seen & to_right
        seen = _spread(seen, to_left >> _ONE, lambda word, by: word >> by) & _ROW
        onward_left = seen & to_left
        rows.append(seen)
        seen = onward_right | (onward_right << _ONE) | onward_left | (onward_left >> _ONE)
    return _packed(rows)


def contains(words: Words) -> jax.Array:
    """Which cells of the image are in a set: bool ``[B, 7, 7]``."""
    near, far = (word[:, None, None] for word in words)
    word = jnp.where(PLACES[None] < 32, near, far)
    return (word >> (PLACES[None] & 31).astype(np.uint32)) & _ONE == _ONE


def is_at(place: jax.Array) -> jax.Array:
    """Which cell of the image is at a place: bool ``[B, 7, 7]``."""
    return place[:, None, None] == PLACES[None]


def _packed(rows: Sequence[jax.Array]) -> Words:
    """Seven rows, the agent's first, as a set."""
    near, far = rows[0], rows[4]
    for i in (1, 2, 3):
        near = near | (rows[i] << np.uint32(8 * i))
    for i in (5, 6):
        far = far | (rows[i] << np.uint32(8 * (i - 4)))
    return near, far


def _spread(seen: jax.Array, through: jax.Array, shift: Callable[[Any, Any], Any]) -> jax.Array:
    """Marks spread along a row for as long as the cell that they come to is in ``through``: 1, 2, then 4 cells on."""
    for by in (np.uint32(1), np.uint32(2), np.uint32(4)):
        seen = seen | (through & shift(seen, by))
        through = through & shift(through, by)
    return seen


def _mirrored(word: jax.Array) -> jax.Array:
    """Each byte's lower seven bits in reverse."""
    for by, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        word = ((word & np.uint32(mask)) << np.uint32(by)) | ((word >> np.uint32(by)) & np.uint32(mask))
    return word >> _ONE
