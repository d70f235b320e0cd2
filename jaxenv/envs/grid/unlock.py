"""Pick up the key and open the locked door with it.

Reference: MiniGrid 3.2.0, ``MiniGrid-Unlock-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        two rooms side by side, with a locked door of a random colour in a random row between them; key and agent
              in two random cells of the left room, the agent facing a random direction, but neither door nor key
Terminates    when the door is open
Time limit    8 * size**2: 288 (registry)
"""

import jax

from jaxenv.envs.grid._objects import door_state
from jaxenv.envs.grid._two_rooms import TwoRooms
from jaxenv.envs.grid.grid_world import OPEN, TOGGLE
from jaxenv.envs.grid.object_world import State
from jaxenv.random import Stream


class Unlock(TwoRooms):
    """Two rooms with a locked door between them; see the module docstring."""

    mission = "open the door"
    steps_per_cell = 8

    def initial(self, stream: Stream) -> State:
        return self.generate(stream)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        return (action == TOGGLE) & (door_state(after.objects.code[:, 0]) == OPEN), False
