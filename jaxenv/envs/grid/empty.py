"""Walk to the goal in the corner of an empty room.

Reference: MiniGrid 3.2.0, ``MiniGrid-Empty-*-v0`` and ``MiniGrid-Empty-Random-*-v0`` (tests/envs/grid/test_levels.py).

Observation   see grid_world.py; the agent sees through walls, which are only at the edge
Action        see grid_world.py
Reward        see grid_world.py
Starts        in the corner opposite the goal, facing right; with random_start in any cell except the goal's, facing a
              random direction
Terminates    on the goal
Time limit    4 * size**2: 100 and 256 (registry)
"""

import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import GridWorld, State, cell, choice, in_corner


class Empty(GridWorld):
    """An empty room; see the module docstring."""

    reset_strategy = {"default": "select"}
    see_through_walls: bool = tree.static(default=True)
    random_start: bool = tree.static(default=False, doc="whether the agent starts in a random cell")

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        agent = in_corner(size)
        if self.random_start:
            word, direction = random.separate_bits(stream, 2)
            width = size - 2
            index = choice(word, width * width - 1)  # cells are numbered row by row, and the goal is the last
            agent = Pose(1 + index % width, 1 + index // width, choice(direction, jnp.full_like(size, 4)))
        return self.start(self.room(size), cell(size - 2, size - 2), agent)
