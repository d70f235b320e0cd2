"""Find the keys of locked doors, which may be hidden in boxes, and pick up the blue ball behind one of the doors.

Reference: MiniGrid 3.2.0, ``MiniGrid-ObstructedMaze-1D*-v0`` and ``MiniGrid-ObstructedMaze-2D*-v0``
(tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py; 5 opens a box, and its key lies in its place
Reward        see grid_world.py
Starts        1D: as in unlock_pickup.py, with a blue ball in place of the box, and with blocked a green ball before the
              door; 2D: three by three rooms; the right one of the middle row has a closed door to the room in the
              middle and locked doors to the rooms above and below it, of different random colours, the keys of both and
              the agent, which does not face an object; the blue ball is in the room above it; all in random cells; with
              key_in_box, a grey box hides each key
Terminates    when the agent carries the blue ball
Time limit    1D: 8 * size**2, 2D: 16 * size**2; 288 and 576 (registry)
"""

import jax

from jaxenv import random, tree
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import BALL, BLUE, DOOR, GREEN, Objects, colour, different_colours, encode, key_of
from jaxenv.envs.grid.grid_world import CARRIED, CLOSED, LOCKED, PICKUP, cell, choice
from jaxenv.envs.grid.object_world import State, start_state
from jaxenv.envs.grid.room_grid import RoomGrid, place_agent_clear_of
from jaxenv.envs.grid.unlock import Unlock

_BLUE_BALL, _GREEN_BALL = encode(BALL, BLUE), encode(BALL, GREEN)


class ObstructedMaze1D(Unlock):
    """Two rooms with one locked door between them; see the module docstring."""

    key_in_box: bool = tree.static(default=True, doc="whether the key is hidden in a box")
    blocked: bool = tree.static(default=True, doc="whether a ball blocks the door")

    mission = "pick up the blue ball"
    has_box = True  # in its place is the blue ball

    def initial(self, stream: random.Stream) -> State:
        state = super().initial(stream)
        door = state.objects.code[:, 0]
        codes = [door, key_of(colour(door), self.key_in_box), _BLUE_BALL, _GREEN_BALL]
        objects = Objects.stack(*zip(state.objects.cell.T, codes, strict=False))
        return tree.rebuild(state, objects=objects)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        return (action == PICKUP) & (after.objects.code_at(CARRIED) == _BLUE_BALL), False


class ObstructedMaze2D(RoomGrid):
    """Nine rooms, two of which are behind locked doors; see the module docstring."""

    key_in_box: bool = tree.static(default=True, doc="whether the keys are hidden in boxes")

    mission = "pick up the blue ball"
    steps_per_cell = 16
    num_columns = 3
    num_rows = 3
    num_doors = 3

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        words = random.bits(stream, (10,))  # one array: XLA would recompute separate words for every use
        rooms, wall = self.rooms(size), size - 1
        along = [1 + choice(words[:, i], size - 2) for i in range(3)]
        to_middle, above, below = different_colours([words[:, i] for i in range(3, 6)])
        objects = [
            (cell(2 * wall, wall + along[0]), encode(DOOR, to_middle, CLOSED)),
            (cell(2 * wall + along[1], wall), encode(DOOR, above, LOCKED)),
            (cell(2 * wall + along[2], 2 * wall), encode(DOOR, below, LOCKED)),
        ]
        free = rooms & self.in_room(2, 1, size)
        for word, of_door in ((words[:, 6], above), (words[:, 7], below)):
            x, y, free = self.place_object(free, word, size)
            objects.append((cell(x, y), key_of(of_door, self.key_in_box)))
        x, y, _ = self.place_object(rooms & self.in_room(2, 0, size), words[:, 8], size)
        things = Objects.stack(*objects, (cell(x, y), _BLUE_BALL))
        agent = place_agent_clear_of(CellSet.from_cells(things.cell, self.num_lines), free, words[:, 9])
        doors = CellSet.from_cells(things.cell[:, :3], self.num_lines)
        return start_state(rooms | doors, things, agent)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        return (action == PICKUP) & (after.objects.code_at(CARRIED) == _BLUE_BALL), False
