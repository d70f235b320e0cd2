"""Pick up the key, open the locked door with it, and walk to the goal behind the door.

Reference: MiniGrid 3.2.0, ``MiniGrid-DoorKey-*-v0`` (tests/envs/grid/test_levels.py).

Observation   see grid_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        a wall from top to bottom in a random column, with a locked door in any row except the lowest; agent and
              key in two random cells left of the wall, the agent facing a random direction; the goal at the lower right
Terminates    on the goal
Time limit    10 * size**2: 250, 640 and 2560 (registry)
"""

import jax
import jax.numpy as jnp

from jaxenv import random
from jaxenv.core import in_one_kernel
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import LOCKED, GridWorld, Lock, State, cell, choice, other_choice


class DoorKey(GridWorld):
    """Two rooms with a locked door between them; see the module docstring."""

    mission = "use the key to open the door and then get to the goal"
    smallest = 5
    steps_per_cell = 10

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        wall, gap, lock, agent = in_one_kernel(_level, size, random.separate_bits(stream, 5))
        floor = self.room(size).remove_column(wall).add(wall, gap)
        return self.start(floor, goal=cell(size - 2, size - 2), agent=agent, lock=lock)


def _level(size: jax.Array, words: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, Lock, Pose]:
    """Returns the column of the wall and the row of its gap, with a lock in it, and the agent, given random words."""
    wall = 2 + choice(words[0], size - 4)
    # The lowest row never has the door, as in MiniGrid.
    gap = 1 + choice(words[1], size - 3)
    width = wall - 1
    count = width * (size - 2)
    agent = choice(words[2], count)
    key = other_choice(words[3], count, taken=agent)
    key_cell = cell(1 + key % width, 1 + key // width)
    lock = Lock(cell(wall, gap), jnp.full_like(size, LOCKED), key_cell)
    direction = choice(words[4], jnp.full_like(size, 4))
    return wall, gap, lock, Pose(1 + agent % width, 1 + agent // width, direction)
