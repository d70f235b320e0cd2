"""Base class of levels whose rooms form a grid: rooms of equal size, with one wall between neighbours.

Reference: MiniGrid 3.2.0, ``RoomGrid`` (tests/envs/grid/objects/test_levels.py).
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.envs.grid._cell_set import CellSet, nth_cell, running_sum
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import LARGEST, choice
from jaxenv.envs.grid.object_world import ObjectWorld, place


class RoomGrid(ObjectWorld):
    """Base class of the levels whose rooms form a grid; ``size`` counts the cells along a room, walls included."""

    max_size: int = tree.static(default=6)

    num_columns, num_rows = 2, 1  # of rooms
    largest = (LARGEST - 1) // 3 + 1

    @property
    def extent(self) -> tuple[int, int]:
        return self.num_columns * (self.max_size - 1) + 1, self.num_rows * (self.max_size - 1) + 1

    def rooms(self, size: jax.Array) -> CellSet:
        """Returns the floor of all rooms, without the walls between them."""
        number = np.arange(self.num_lines, dtype=np.int32)[None]
        period = size[:, None] - 1
        columns, rows = ((number % period != 0) & (number < n * period) for n in (self.num_columns, self.num_rows))
        return CellSet.from_plane(rows[:, :, None] & columns[:, None, :])

    def in_room(self, column: jax.Array | int, row: jax.Array | int, size: jax.Array) -> CellSet:
        """Returns the cells of one room (int32 ``[B]``, or one for all lanes) with the walls around it."""
        left, top = column * (size - 1), row * (size - 1)
        return CellSet.rectangle(left, left + size, top, top + size, self.num_lines)

    def far_from_middle(self, cells: CellSet, size: jax.Array) -> CellSet:
        """Removes the middle cell and its neighbours: MiniGrid keeps objects away from the agent, which waits there."""
        x, y = (n // 2 * (size - 1) + size // 2 for n in (self.num_columns, self.num_rows))
        for dx, dy in ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1)):
            cells = cells.remove(x + dx, y + dy)
        return cells

    def place_object(self, free: CellSet, word: jax.Array, size: jax.Array) -> tuple[jax.Array, jax.Array, CellSet]:
        """Draws a cell for an object, as `place`, but not near the middle of the grid."""
        x, y, _ = place(self.far_from_middle(free, size), word)
        return x, y, free.remove(x, y)


def place_agent_clear_of(objects: CellSet, free: CellSet, word: jax.Array) -> Pose:
    """Draws a cell of ``free``, by a random word, and a direction such that no object is in the cell ahead."""
    rows = jnp.stack([(free - objects.before(direction)).rows for direction in range(4)], axis=1)
    up_to = running_sum(jnp.sum(jax.lax.population_count(rows).astype(jnp.int32), axis=2))
    number = choice(word, up_to[:, 3])
    earlier = up_to <= number[:, None]
    direction = jnp.sum(earlier, axis=1, dtype=jnp.int32)
    is_chosen = direction[:, None, None] == np.arange(4, dtype=np.int32)[None, :, None]
    chosen = jnp.sum(jnp.where(is_chosen, rows, np.uint32(0)), axis=1, dtype=jnp.uint32)
    x, y = nth_cell(chosen, number - jnp.max(jnp.where(earlier, up_to, 0), axis=1))
    return Pose(x, y, direction)
