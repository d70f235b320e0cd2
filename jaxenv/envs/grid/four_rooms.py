"""Walk to the goal in one of four rooms, each connected to its neighbours by a gap in the wall.

Reference: MiniGrid 3.2.0, ``MiniGrid-FourRooms-v0`` (tests/envs/grid/test_levels.py).
The rooms: Sutton, Precup and Singh (1999), doi:10.1016/S0004-3702(99)00052-1.

Observation   see grid_world.py
Action        see grid_world.py; the last four have no effect
Reward        see grid_world.py
Starts        four random gaps; agent and goal in two random free cells, gaps included, the agent facing at random
Terminates    on the goal
Time limit    100 (registry)
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import GridWorld, Params, State, cell, choice, other_choice


class FourRooms(GridWorld):
    """Four rooms of equal size; see the module docstring."""

    params: Params = Params(max_steps=100)
    max_size: int = tree.static(default=19)

    mission = "reach the goal"
    smallest = 5
    odd = True

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        gaps, goal, agent = in_one_kernel(_level, size, random.separate_bits(stream, 7))
        floor = self.room(size).remove_column(size // 2).remove_row(size // 2)
        for x, y in gaps:
            floor = floor.add(x, y)
        return self.start(floor, goal, agent)


def _level(size: jax.Array, words: tuple[jax.Array, ...]) -> tuple[Any, jax.Array, Pose]:
    """Returns the gaps in the walls, as x and y, the goal and the agent, given random words."""
    middle = size // 2
    width = middle - 1  # of a room
    # Gaps in the upper, lower, left and right inner wall.
    first, second = 1 + choice(words[0], width), middle + 1 + choice(words[1], width)
    third, fourth = 1 + choice(words[2], width), middle + 1 + choice(words[3], width)
    gaps = ((middle, first), (middle, second), (third, middle), (fourth, middle))

    count = 4 * width * width + 4
    start = choice(words[4], count)
    goal = other_choice(words[5], count, taken=start)
    direction = choice(words[6], jnp.full_like(size, 4))
    return gaps, cell(*_free_cell(goal, width, gaps)), Pose(*_free_cell(start, width, gaps), direction)


def _free_cell(number: jax.Array, width: jax.Array, gaps: tuple[Any, ...]) -> tuple[jax.Array, jax.Array]:
    """Returns the coordinates of a cell that is not a wall; the rooms are numbered first, one by one, then the gaps."""
    area = width * width
    room, inside = number // area, number % area
    x = 1 + (room % 2) * (width + 1) + inside % width
    y = 1 + (room // 2) * (width + 1) + inside // width
    for i, (gap_x, gap_y) in enumerate(gaps):
        here = number == 4 * area + i
        x, y = jnp.where(here, gap_x, x), jnp.where(here, gap_y, y)
    return x, y
