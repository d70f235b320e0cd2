"""Open the red door, then the blue door.

Reference: MiniGrid 3.2.0, ``MiniGrid-RedBlueDoors-*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        a room of size by size cells in the middle of a grid twice as wide, with a closed red door in a random row
              of its left wall and a closed blue door in a random row of its right wall; the agent in a random cell of
              the room, facing a random direction
Terminates    when the blue door is open, with a reward if the red door was open before
Time limit    20 * size**2: 720 and 1280 (registry)
"""

import jax
import jax.numpy as jnp

from jaxenv import random
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import BLUE, DOOR, RED, Objects, door_state, encode
from jaxenv.envs.grid.grid_world import CLOSED, LARGEST, OPEN, cell, choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, place_agent, start_state


class RedBlueDoors(ObjectWorld):
    """A room between two others, with a door to each; see the module docstring."""

    mission = "open the red door then the blue door"
    largest = LARGEST // 2
    steps_per_cell = 20
    num_doors = 2

    @property
    def extent(self) -> tuple[int, int]:
        return 2 * self.max_size, self.max_size

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        words = random.bits(stream, (4,))
        one = jnp.ones_like(size)
        left, right = size // 2, size // 2 + size - 1
        room = CellSet.rectangle(left + 1, right, one, size - 1, self.num_lines)
        grid = CellSet.rectangle(one, 2 * size - 1, one, size - 1, self.num_lines)
        red, blue = 1 + choice(words[:, 0], size - 2), 1 + choice(words[:, 1], size - 2)
        floor = grid.remove_column(left).remove_column(right).add(left, red).add(right, blue)
        red_door, blue_door = encode(DOOR, RED, CLOSED), encode(DOOR, BLUE, CLOSED)
        doors = Objects.stack((cell(left, red), red_door), (cell(right, blue), blue_door))
        return start_state(floor, doors, place_agent(room, words[:, 2], words[:, 3]))

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        codes = [state.objects.code[:, i] for state in (before, after) for i in (0, 1)]
        red_before, blue_before, red, blue = (door_state(code) == OPEN for code in codes)
        return blue & red_before, blue | (red & blue_before)
