"""Walk to the goal, which may be in any of four rooms with a gap between each two neighbours.

Reference: MiniGrid 3.2.0, ``MiniGrid-FourRooms-v0`` (tests/envs/grid/test_levels.py).
The rooms: Sutton, Precup and Singh (1999), doi:10.1016/S0004-3702(99)00052-1.

Observation   as in world.py
Action        as in world.py; the last four do nothing
Reward        as in world.py
Starts        four random gaps; agent and goal in two random cells that are not wall (gaps are not), facing any way
Terminates    on the goal
Time limit    100 (registry)
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.envs.grid.view import Pose
from jaxenv.envs.grid.world import GridWorld, Params, cell, choice


class FourRooms(GridWorld):
    """Four rooms of one size; see the module."""

    # Draws and walls of all lanes at every step would take as long as the step itself.
    reset_strategy = {"cpu": "compact", "default": "select"}

    params: Params = Params(max_steps=100)
    max_size: int = tree.static(default=19)

    mission: ClassVar[str] = "reach the goal"
    smallest: ClassVar[int] = 5
    odd: ClassVar[bool] = True

    def initial(self, stream):
        size = self.sizes(stream.shape)
        words = random.bits(stream, (7,))  # as one array: lists are drawn anew for whatever uses them
        middle = size // 2
        width = middle - 1  # of a room
        # Gaps of the upper, lower, left and right wall between two rooms.
        first, second = 1 + choice(words[:, 0], width), middle + 1 + choice(words[:, 1], width)
        third, fourth = 1 + choice(words[:, 2], width), middle + 1 + choice(words[:, 3], width)
        gaps = ((middle, first), (middle, second), (third, middle), (fourth, middle))
        floor = self.room(size).drop_column(middle).drop_row(middle)
        for x, y in gaps:
            floor = floor.put(x, y)

        count = 4 * width * width + 4
        start = choice(words[:, 4], count)
        goal = choice(words[:, 5], count - 1)
        goal = goal + (goal >= start).astype(jnp.int32)  # any but the agent's
        direction = choice(words[:, 6], np.full(size.shape, 4, np.int32))
        return self.start(
            floor,
            goal=cell(*_free_cell(goal, width, gaps)),
            agent=Pose(*_free_cell(start, width, gaps), direction),
        )


def _free_cell(number: jax.Array, width: jax.Array, gaps) -> tuple[jax.Array, jax.Array]:
    """Coordinates of cells that are not wall, numbered room by room, then the gaps."""
    area = width * width
    room, inside = number // area, number % area
    x = 1 + (room % 2) * (width + 1) + inside % width
    y = 1 + (room // 2) * (width + 1) + inside // width
    for i, (gap_x, gap_y) in enumerate(gaps):
        here = number == 4 * area + i
        x, y = jnp.where(here, gap_x, x), jnp.where(here, gap_y, y)
    return x, y
