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

from jaxenv import random
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import BALL, BOX, DOOR, KEY, Objects, colour, door_state, encode, random_code
from jaxenv.envs.grid.grid_world import LOCKED, OPEN, TOGGLE, cell, choice
from jaxenv.envs.grid.object_world import State, start_state
from jaxenv.envs.grid.room_grid import RoomGrid, place_agent_clear_of


class Unlock(RoomGrid):
    """Two rooms with a locked door between them; see the module docstring.

    In its subclasses there may also be a box in the right room, and a ball that blocks the door.
    """

    mission = "open the door"
    steps_per_cell = 8
    num_doors = 1
    has_box = False
    blocked = False

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        words = random.bits(stream, (8,))  # one array: XLA would recompute separate words for every use
        rooms = self.rooms(size)
        wall, door_y = size - 1, 1 + choice(words[:, 0], size - 2)
        door = random_code(DOOR, words[:, 1], LOCKED)
        objects = [(cell(wall, door_y), door)]

        left = rooms & self.in_room(0, 0, size)
        if self.blocked:
            left = left.remove(wall - 1, door_y)
        key_x, key_y, left = self.place_object(left, words[:, 2], size)
        objects.append((cell(key_x, key_y), encode(KEY, colour(door))))
        if self.has_box:
            x, y, _ = self.place_object(rooms & self.in_room(1, 0, size), words[:, 4], size)
            objects.append((cell(x, y), random_code(BOX, words[:, 5])))
        if self.blocked:
            objects.append((cell(wall - 1, door_y), random_code(BALL, words[:, 6])))
        things = Objects.stack(*objects)
        agent = place_agent_clear_of(CellSet.from_cells(things.cell, self.num_lines), left, words[:, 3])
        return start_state(rooms.add(wall, door_y), things, agent)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        return (action == TOGGLE) & (door_state(after.objects.code[:, 0]) == OPEN), False
