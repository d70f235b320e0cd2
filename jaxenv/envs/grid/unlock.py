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

from typing import ClassVar

from jaxenv import random
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid.grid_world import LOCKED, OPEN, TOGGLE, cell, choice
from jaxenv.envs.grid.object_world import DOOR, KEY, Objects, colour, door_state, encode, random_code, start_state
from jaxenv.envs.grid.room_grid import RoomGrid, place_agent_clear_of


class Unlock(RoomGrid):
    """Two rooms with a locked door between them; see the module docstring."""

    mission: ClassVar[str] = "open the door"
    steps_per_cell: ClassVar[int] = 8
    num_doors: ClassVar[int] = 1

    def initial(self, stream):
        size = self.sizes(stream.shape)
        words = random.bits(stream, (8,))  # one array: XLA would recompute separate words for every use
        rooms = self.rooms(size)
        wall, door_y = size - 1, 1 + choice(words[:, 0], size - 2)
        door = random_code(DOOR, words[:, 1], LOCKED)
        key_x, key_y, left = self.place_object(rooms & self.in_room(0, 0, size), words[:, 2], size)
        things = Objects.stack((cell(wall, door_y), door), (cell(key_x, key_y), encode(KEY, colour(door))))
        agent = place_agent_clear_of(CellSet.of(things.cell, self.num_lines), left, words[:, 3])
        return start_state(rooms.add(wall, door_y), things, agent)

    def judge(self, before, action, after):
        return (action == TOGGLE) & (door_state(after.objects.code[:, 0]) == OPEN), False
