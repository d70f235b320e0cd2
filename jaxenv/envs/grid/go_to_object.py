"""Walk to the object that the mission names and say so.

Reference: MiniGrid 3.2.0, ``MiniGrid-GoToObject-*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py; the agent sees through walls, which are only at the edge
Action        see grid_world.py; 6 says that the agent has arrived
Reward        see grid_world.py
Starts        keys, balls and boxes of random colours, no two of them alike, and the agent, which faces a random
              direction, in random cells of a room; the mission names a random one of these objects
Terminates    when the agent says that it has arrived, with a reward if it is next to the cell in which the object of
              the mission was at the start, and when it toggles
Time limit    5 * size**2: 180 and 320 (registry)
"""

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._objects import Objects, different_things
from jaxenv.envs.grid.grid_world import DONE, TOGGLE, cell, choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, distance, place, place_agent, start_state


class GoToObject(ObjectWorld):
    """A room with objects; see the module docstring."""

    see_through_walls: bool = tree.static(default=True)
    observe_mission: bool = tree.static(default=True)
    num_objects: int = tree.static(default=2, low=1, high=8, doc="number of objects")

    mission = "go to the object"
    smallest = 5
    steps_per_cell = 5

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        room = free = self.room(size)
        words = random.bits(stream, (2 * self.num_objects + 3,))
        codes = different_things([words[:, i] for i in range(self.num_objects)])
        things = []
        for i, code in enumerate(codes):
            x, y, free = place(free, words[:, self.num_objects + i])
            things.append((cell(x, y), code))
        objects = Objects.stack(*things)
        chosen = choice(words[:, -1], jnp.full_like(size, self.num_objects))[:, None]
        code = jnp.take_along_axis(objects.code, chosen, axis=1)[:, 0]
        target = jnp.take_along_axis(objects.cell, chosen, axis=1)[:, 0]
        mission = _mission.phrase("go to the", _mission.colour(code), _mission.kind(code))
        return start_state(room, objects, place_agent(free, words[:, -2], words[:, -3]), target, mission)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        says = action == DONE
        return says & (distance(after.agent, after.target) == 1), says | (action == TOGGLE)
