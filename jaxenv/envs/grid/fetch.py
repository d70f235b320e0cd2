"""Pick up the object that the mission names.

Reference: MiniGrid 3.2.0, ``MiniGrid-Fetch-*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py; the agent sees through walls, which are only at the edge
Action        see grid_world.py
Reward        see grid_world.py
Starts        keys and balls of random colours, and the agent, which faces a random direction, in random cells of a
              room; the mission names a random one of these objects, in one of five ways
Terminates    when the agent carries an object, with a reward if it is of the kind and colour of the mission
Time limit    5 * size**2: 125, 180 and 320 (registry)
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._objects import KEY, Objects, random_code
from jaxenv.envs.grid.grid_world import CARRIED, cell, choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, place, place_agent, start_state

_REQUESTS = ("get a", "go get a", "fetch a", "go fetch a", "you must fetch a")


class Fetch(ObjectWorld):
    """A room with keys and balls; see the module docstring."""

    see_through_walls: bool = tree.static(default=True)
    observe_mission: bool = tree.static(default=True)
    num_objects: int = tree.static(default=3, low=1, high=8, doc="number of keys and balls")

    mission = "fetch a"
    smallest = 5
    steps_per_cell = 5

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        room = free = self.room(size)
        words = random.bits(stream, (3 * self.num_objects + 4,))
        things = []
        for i in range(self.num_objects):
            kind = KEY + choice(words[:, 3 * i], jnp.full_like(size, 2)).astype(jnp.uint32)
            x, y, free = place(free, words[:, 3 * i + 1])
            things.append((cell(x, y), random_code(kind, words[:, 3 * i + 2])))
        objects = Objects.stack(*things)
        request, wanted, start, direction = (words[:, -i] for i in (1, 2, 3, 4))
        chosen = choice(wanted, jnp.full_like(size, self.num_objects))
        target = objects.code_at(jnp.take_along_axis(objects.cell, chosen[:, None], axis=1)[:, 0])
        mission = _ask(choice(request, jnp.full_like(size, len(_REQUESTS))), target)
        agent = place_agent(free, start, direction)
        return start_state(room, objects, agent, target.astype(jnp.int32), mission)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        held = after.objects.code_at(CARRIED)
        success = held.astype(jnp.int32) == after.target
        return success, held != 0


def _ask(request: jax.Array, target: jax.Array) -> jax.Array:
    """Returns the mission for the number of a request (int32 ``[B]``) and the code of an object (uint32 ``[B]``)."""
    chosen = request[:, None] == np.arange(len(_REQUESTS), dtype=np.int32)[None]
    table = np.stack([_mission.encode(text) for text in _REQUESTS])
    words = jnp.sum(jnp.where(chosen[:, :, None], table[None], np.uint8(0)), axis=1, dtype=jnp.uint8)
    length = jnp.sum(words > 0, axis=1, dtype=jnp.int32)[:, None]
    position = np.arange(_mission.LENGTH, dtype=np.int32)[None]
    words = jnp.where(position == length, _mission.colour(target)[:, None], words)
    return jnp.where(position == length + 1, _mission.kind(target)[:, None], words)
