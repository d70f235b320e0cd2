"""Walk to the door that the mission names and say so.

Reference: MiniGrid 3.2.0, ``MiniGrid-GoToDoor-*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py; the agent sees through walls
Action        see grid_world.py; 6 says that the agent has arrived
Reward        see grid_world.py
Starts        a room of 5 .. size by 5 .. size cells in the upper left corner of the grid, with a closed door in a
              random cell of each wall, but not next to a corner; the doors have different random colours; the agent in
              a random cell of the room, facing a random direction
Terminates    when the agent says that it has arrived, with a reward if next to the mission's door, and when it toggles
Time limit    4 * size**2: 100, 144 and 256 (registry)
"""

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import DOOR, Objects, different_colours, encode
from jaxenv.envs.grid.grid_world import CLOSED, DONE, TOGGLE, cell, choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, distance, place_agent, start_state


class GoToDoor(ObjectWorld):
    """A room with four doors; see the module docstring."""

    see_through_walls: bool = tree.static(default=True)
    observe_mission: bool = tree.static(default=True)

    mission = "go to the door"
    smallest = 5
    num_doors = 4

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        words = random.bits(stream, (13,))
        width, height, places = in_one_kernel(_walls, size, tuple(words[:, i] for i in range(6)))
        zero = jnp.zeros_like(size)
        inside = CellSet.rectangle(zero + 1, width - 1, zero + 1, height - 1, self.max_size)
        grid = CellSet.rectangle(zero, size, zero, size, self.max_size)
        floor = (grid - CellSet.rectangle(zero, width, zero, height, self.max_size)) | inside

        colours = different_colours([words[:, i] for i in range(6, 10)])
        pairs = zip(places, colours, strict=True)
        doors = Objects.stack(*((place, encode(DOOR, colour, CLOSED)) for place, colour in pairs))
        floor = floor | CellSet.from_cells(doors.cell, self.max_size)
        chosen = choice(words[:, 10], jnp.full_like(size, 4))[:, None]
        target = jnp.take_along_axis(doors.cell, chosen, axis=1)[:, 0]
        colour = _mission.colour(jnp.take_along_axis(doors.code, chosen, axis=1)[:, 0])
        mission = _mission.phrase("go to the", colour, "door")
        return start_state(floor, doors, place_agent(inside, words[:, 11], words[:, 12]), target, mission)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        says = action == DONE
        return says & (distance(after.agent, after.target) == 1), says | (action == TOGGLE)


def _walls(size: jax.Array, words: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
    """Returns the width and the height of the room, walls included, and the cells of its doors, given random words."""
    width, height = 5 + choice(words[0], size - 4), 5 + choice(words[1], size - 4)
    places = (
        cell(2 + choice(words[2], width - 4), 0),
        cell(2 + choice(words[3], width - 4), height - 1),
        cell(0, 2 + choice(words[4], height - 4)),
        cell(width - 1, 2 + choice(words[5], height - 4)),
    )
    return width, height, places
