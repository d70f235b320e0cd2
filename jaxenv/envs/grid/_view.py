"""The agent's view: the 7 by 7 cells ahead of it, rotated so that ahead is up; walls hide the cells behind them.

Reference: ``MiniGridEnv.gen_obs`` of MiniGrid 3.2.0, including its rule of visibility.

The agent is in column 3 of the row nearest to it. Every cell of the view has a *view index*, 8 * (steps ahead) +
column, and a set of cells of the view is two words per lane: bit p of the first is view index p, bit p of the second is
view index 32 + p. A row of the view is thus one byte, whose highest bit is unused:

    column           0  1  2  3  4  5  6
    6 steps ahead   48 49 50 51 52 53 54    second word, bits 16 to 22
    5 steps ahead   40 41 42 43 44 45 46    second word, bits  8 to 14
    4 steps ahead   32 33 34 35 36 37 38    second word, bits  0 to  6
    3 steps ahead   24 25 26 27 28 29 30    first word,  bits 24 to 30
    2 steps ahead   16 17 18 19 20 21 22    first word,  bits 16 to 22
    1 step ahead     8  9 10 11 12 13 14    first word,  bits  8 to 14
    agent's row      0  1  2  A  4  5  6    first word,  bits  0 to  6; the agent has view index 3
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.grid._cell_set import CellSet, pick_line, plane_of, reversed_bits

ViewSet: TypeAlias = tuple[jax.Array, jax.Array]  # a set of cells of the view, uint32 [B] each

SIZE = 7  # cells per side
_HALF = SIZE // 2
_ROW = np.uint32(2**SIZE - 1)
_ONE = np.uint32(1)

OUT_OF_VIEW = np.int32(-1)
# The image has three bytes per cell; its first axis is the column, and the last row is the agent's. For each byte, in
# the order of memory, int32 or uint32 [147]: the view index of its cell, the bit of that cell in either word of a set
# (0 in the other), and the place of the byte in the code of the cell.
_INDICES = np.repeat(8 * (SIZE - 1 - np.arange(SIZE))[None, :] + np.arange(SIZE)[:, None], 3).astype(np.int32)
_NEAR = np.where(_INDICES < 32, _ONE << (_INDICES & 31).astype(np.uint32), np.uint32(0))
_FAR = np.where(_INDICES < 32, np.uint32(0), _ONE << (_INDICES & 31).astype(np.uint32))
EMPTY, _WALL, _LAVA, _AGENT = (np.uint32(code) for code in (1, 2 | 5 << 8, 9, 10))  # in MiniGrid's encoding
_BYTE_SHIFTS = np.tile(np.array([0, 8, 16], np.uint32), SIZE * SIZE)


@tree.struct
class Pose:
    """Position and direction of the agent, int32 ``[B]`` each."""

    x: jax.Array
    y: jax.Array  # grows downwards
    direction: jax.Array  # 0 right, 1 down, 2 left, 3 up

    @property
    def heading(self) -> tuple[jax.Array, jax.Array]:
        """The step ahead along x and along y, int32 ``[B]`` each."""
        right, down, left, up = ((self.direction == i).astype(jnp.int32) for i in range(4))
        return right - left, down - up

    @property
    def ahead(self) -> tuple[jax.Array, jax.Array]:
        """The cell in front of the agent: x and y, int32 ``[B]`` each."""
        across, down = self.heading
        return self.x + across, self.y + down


def in_view(cells: CellSet, pose: Pose) -> ViewSet:
    """Returns the cells of the view that are in a set of cells of the grid."""
    along_x = (pose.direction == 0) | (pose.direction == 2)
    across = jnp.where(along_x[:, None], cells.columns, cells.rows)
    start, middle = jnp.where(along_x, pose.x, pose.y), jnp.where(along_x, pose.y, pose.x)
    onward = jnp.where(pose.direction < 2, np.int32(1), np.int32(-1))
    steps = np.arange(SIZE, dtype=np.int32)[None]
    rows = pick_line(across, start[:, None] + onward[:, None] * steps)
    # The shift to the left comes first because the view may start up to 3 cells before the edge of the grid.
    rows = ((rows << np.uint32(_HALF)) >> middle.astype(jnp.uint32)[:, None]) & _ROW
    near, far = _pack_rows([rows[:, ahead] for ahead in range(SIZE)])
    turned = (pose.direction == 1) | (pose.direction == 2)
    # A row of the view is the lower seven bits of a byte.
    mirrored = [reversed_bits(word, 8) >> _ONE for word in (near, far)]
    return jnp.where(turned, mirrored[0], near), jnp.where(turned, mirrored[1], far)


def from_agent(x: jax.Array, y: jax.Array, agent: Pose, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns steps ahead and column of cell (x, y) in a view of some size, and whether it is in it, ``[B]`` each."""
    across, down = agent.heading
    ahead = across * (x - agent.x) + down * (y - agent.y)
    column = across * (y - agent.y) - down * (x - agent.x) + np.int32(size // 2)
    return ahead, column, (ahead >= 0) & (ahead < size) & (column >= 0) & (column < size)


def index(x: jax.Array, y: jax.Array, agent: Pose) -> jax.Array:
    """Returns the view index of cell (x, y) of the grid, int32 ``[B]``, or ``OUT_OF_VIEW``."""
    ahead, column, within = from_agent(x, y, agent, SIZE)
    return jnp.where(within, 8 * ahead + column, OUT_OF_VIEW)


def index_of(cell: jax.Array, agent: Pose) -> jax.Array:
    """Returns the view index of a cell, given its number; negative numbers are out of view."""
    return jnp.where(cell >= 0, index(cell & 31, cell >> 5, agent), OUT_OF_VIEW)


def remove(cells: ViewSet, indices: jax.Array) -> ViewSet:
    """Removes the cells at view indices (int32 ``[B]`` or ``[B, K]``); ``OUT_OF_VIEW`` removes nothing."""
    bits = _ONE << (indices & 31).astype(jnp.uint32)
    removed = tuple(jnp.where(indices >> 5 == half, bits, np.uint32(0)) for half in (0, 1))
    if indices.ndim > 1:
        zeros = (np.uint32(0), np.uint32(0))
        removed = jax.lax.reduce(removed, zeros, lambda x, y: tuple(map(jax.lax.bitwise_or, x, y)), (1,))
    return cells[0] & ~removed[0], cells[1] & ~removed[1]


def visible(transparent: ViewSet) -> ViewSet:
    """Returns the cells that the agent sees, by MiniGrid's rule, given the cells that do not block its sight.

    In each row, sight spreads sideways through transparent cells, first to the right, then to the left. From every
    transparent cell that it spreads from, it also reaches the row ahead: the cell straight ahead and the one diagonally
    ahead in the direction of the spread. The last cell of a row spreads it one way. So the agent sees around corners.
    """
    return in_one_kernel(_visible, transparent)


def _visible(transparent: ViewSet) -> ViewSet:
    seen = jnp.full_like(transparent[0], np.uint32(1 << _HALF))
    rows = []
    for ahead in range(SIZE):
        clear = (transparent[ahead // 4] >> np.uint32(8 * (ahead % 4))) & _ROW
        to_right, to_left = clear & (_ROW >> _ONE), clear & (_ROW - _ONE)
        seen = _spread(seen, to_right << _ONE, lambda word, by: word << by)
        onward_right = seen & to_right
        seen = _spread(seen, to_left >> _ONE, lambda word, by: word >> by) & _ROW
        onward_left = seen & to_left
        rows.append(seen)
        seen = onward_right | (onward_right << _ONE) | onward_left | (onward_left >> _ONE)
    return _pack_rows(rows)


def on_grid(cells: ViewSet | None, pose: Pose, num_lines: int) -> jax.Array:
    """Returns which cells of the grid are in a set, or in the whole view for None: bool ``[B, N, N]``, rows first."""
    number = jnp.arange(num_lines, dtype=jnp.int32)
    at = index(number[None, None, :], number[None, :, None], jax.tree.map(lambda x: x[:, None, None], pose))
    if cells is None:
        return at != OUT_OF_VIEW
    near, far = (word[:, None, None] for word in cells)
    word = jnp.where(at < 32, near, far)
    return (at != OUT_OF_VIEW) & ((word >> (at & 31).astype(jnp.uint32)) & _ONE == _ONE)


def encode(
    floor: ViewSet, lava: ViewSet | None, seen: ViewSet | None, things: Sequence[tuple[jax.Array, Any]], held: Any
) -> jax.Array:
    """Returns the bytes of the image, uint8 ``[B, 147]``: floor, lava, things, and 0 where the agent does not see.

    ``seen`` is None if it sees all cells. ``things`` are pairs of view indices, int32 ``[B]``, and codes, uint32
    ``[B, 1]`` or one for all lanes. In its own cell the agent sees the code ``held``, not the object under it.
    """
    image = jnp.where(_in_image(floor), EMPTY, _WALL)
    if lava is not None:
        image = jnp.where(_in_image(lava), _LAVA, image)
    for place, code in things:
        image = jnp.where(place[:, None] == _INDICES[None], code, image)
    image = jnp.where(_INDICES[None] == np.int32(_HALF), held, image)
    if seen is not None:
        image = jnp.where(_in_image(seen), image, np.uint32(0))
    # The bytes of a code are object, colour, state and an unused one.
    return (image >> _BYTE_SHIFTS[None]).astype(jnp.uint8)


def _in_image(cells: ViewSet) -> jax.Array:
    """Returns which bytes of the image belong to cells of a set, bool ``[B, 147]``."""
    near, far = cells
    return ((near[:, None] & _NEAR[None]) | (far[:, None] & _FAR[None])) != 0


def whole_grid(
    floor: CellSet, lava: CellSet | None, things: Sequence[tuple[jax.Array, Any]], agent: Pose, extent: tuple[int, int]
) -> jax.Array:
    """Returns kind, colour and state of every cell, uint8 ``[B, columns, rows, 3]``, as MiniGrid's ``FullyObsWrapper``.

    ``things`` are pairs of cells, int32 ``[B]``, and codes, uint32 ``[B]`` or one for all lanes; negative cells are not
    shown. The agent hides the object in its cell; its state is its direction.
    """
    columns, rows = (np.arange(n, dtype=np.int32) for n in extent)
    number = columns[None, :, None] + 32 * rows[None, None, :]
    image = jnp.where(plane_of(floor.columns[:, : extent[0]], extent[1]), EMPTY, _WALL)
    if lava is not None:
        image = jnp.where(plane_of(lava.columns[:, : extent[0]], extent[1]), _LAVA, image)
    shown = [*things, (agent.x + 32 * agent.y, _AGENT | agent.direction.astype(jnp.uint32) << np.uint32(16))]
    for cell, code in shown:
        code = jnp.broadcast_to(code, cell.shape)
        image = jnp.where(number == cell[:, None, None], code[:, None, None], image)
    return (image[..., None] >> _BYTE_SHIFTS[None, None, None, :3]).astype(jnp.uint8)


def _pack_rows(rows: Sequence[jax.Array]) -> ViewSet:
    """Packs seven rows, the agent's first, into a set."""
    near, far = rows[0], rows[4]
    for i in (1, 2, 3):
        near = near | (rows[i] << np.uint32(8 * i))
    for i in (5, 6):
        far = far | (rows[i] << np.uint32(8 * (i - 4)))
    return near, far


def _spread(seen: jax.Array, through: jax.Array, shift: Callable[[Any, Any], Any]) -> jax.Array:
    """Spreads marks along a row through all adjacent cells of ``through``, in jumps of 1, 2 and 4 cells."""
    for by in (np.uint32(1), np.uint32(2), np.uint32(4)):
        seen = seen | (through & shift(seen, by))
        through = through & shift(through, by)
    return seen
