"""Pick up the key, open the locked door with it, and walk to the goal behind the door.

Reference: MiniGrid 3.2.0, ``MiniGrid-DoorKey-*-v0`` (tests/envs/grid/test_levels.py).

Observation   see grid_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        a wall from top to bottom in a random column, with a locked door in any row except the lowest; agent and
              key in two random cells to the left of the wall, the agent facing a random direction; the goal in the
              lower right corner
Terminates    on the goal
Time limit    10 * size**2: 250, 640 and 2560 (registry)
"""

from typing import ClassVar

import jax.numpy as jnp

from jaxenv import random
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import LOCKED, GridWorld, Lock, cell, choice


class DoorKey(GridWorld):
    """Two rooms with a locked door between them; see the module docstring."""

    # Generating a level for every lane at every step would take as long as the step itself.
    reset_strategy = {"cpu": "compact", "default": "select"}

    mission: ClassVar[str] = "use the key to open the door and then get to the goal"
    smallest: ClassVar[int] = 5
    steps_per_cell: ClassVar[int] = 10

    def initial(self, stream):
        size = self.sizes(stream.shape)
        words = random.bits(stream, (5,))  # one array: XLA would recompute separate words for every use
        wall = 2 + choice(words[:, 0], size - 4)
        # The lowest row never has the door, as in MiniGrid.
        door = 1 + choice(words[:, 1], size - 3)
        width = wall - 1
        count = width * (size - 2)
        agent = choice(words[:, 2], count)
        key_index = choice(words[:, 3], count - 1)
        key_index = key_index + (key_index >= agent).astype(jnp.int32)  # skips the agent's cell
        direction = choice(words[:, 4], jnp.full_like(size, 4))
        return self.start(
            self.room(size).remove_column(wall).add(wall, door),
            goal=cell(size - 2, size - 2),
            agent=Pose(1 + agent % width, 1 + agent // width, direction),
            lock=Lock(
                door=cell(wall, door),
                door_state=jnp.full_like(size, LOCKED),
                key=cell(1 + key_index % width, 1 + key_index // width),
            ),
        )
