"""Base class of ``Unlock``, ``UnlockPickup``, ``BlockedUnlockPickup`` and ``ObstructedMaze1D``: two rooms."""

from jaxenv import random
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import BALL, BOX, DOOR, KEY, Objects, colour, encode, random_code
from jaxenv.envs.grid.grid_world import LOCKED, cell, choice
from jaxenv.envs.grid.object_world import State, start_state
from jaxenv.envs.grid.room_grid import RoomGrid, place_agent_clear_of


class TwoRooms(RoomGrid):
    """Two rooms side by side with a locked door between them, and its key and the agent in the left room."""

    num_doors = 1

    def generate(self, stream: random.Stream, box: bool = False, ball: bool = False) -> State:
        """Returns the state at the start of an episode; its objects are door, key, box and ball, in this order.

        With ``box`` there is a box in the right room, with ``ball`` a ball blocks the door.
        """
        size = self.sizes(stream.shape)
        words = random.bits(stream, (8,))  # one array: XLA would recompute separate words for every use
        rooms = self.rooms(size)
        wall, door_y = size - 1, 1 + choice(words[:, 0], size - 2)
        door = random_code(DOOR, words[:, 1], LOCKED)
        objects = [(cell(wall, door_y), door)]

        left = rooms & self.in_room(0, 0, size)
        if ball:
            left = left.remove(wall - 1, door_y)
        key_x, key_y, left = self.place_object(left, words[:, 2], size)
        objects.append((cell(key_x, key_y), encode(KEY, colour(door))))
        if box:
            x, y, _ = self.place_object(rooms & self.in_room(1, 0, size), words[:, 4], size)
            objects.append((cell(x, y), random_code(BOX, words[:, 5])))
        if ball:
            objects.append((cell(wall - 1, door_y), random_code(BALL, words[:, 6])))
        things = Objects.stack(*objects)
        agent = place_agent_clear_of(CellSet.from_cells(things.cell, self.num_lines), left, words[:, 3])
        return start_state(rooms.add(wall, door_y), things, agent)
