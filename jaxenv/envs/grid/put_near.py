"""Pick up one object and drop it near another, both of which the mission names.

Reference: MiniGrid 3.2.0, ``MiniGrid-PutNear-*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py; the agent sees through walls, which are only at the edge
Action        see grid_world.py
Reward        see grid_world.py
Starts        keys, balls and boxes of random colours, no two of them alike or in neighbouring cells, and the agent,
              which faces a random direction, in random cells of a room; the mission names two random ones of these
Terminates    when the agent picks up another object than the first of the mission, and when it drops or tries to drop
              what it carries, with a reward if it drops it next to the second, diagonally or not
Time limit    5 * size: 30 and 40 (registry)
"""

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._objects import Objects, different_things
from jaxenv.envs.grid.grid_world import CARRIED, DROP, PICKUP, cell, choice, other_choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, place, place_agent, start_state


class PutNear(ObjectWorld):
    """A room with objects; see the module docstring."""

    max_size: int = tree.static(default=6)
    see_through_walls: bool = tree.static(default=True)
    observe_mission: bool = tree.static(default=True)
    # Three objects in a room of 6 by 6 cells could leave no cell for the last one.
    num_objects: int = tree.static(default=2, low=2, high=3, doc="number of objects")

    mission = "put the object near the object"
    sized_by = "num_objects"

    @property
    def smallest(self) -> int:  # type: ignore[override]
        return 6 if self.num_objects == 2 else 8

    def _default_max_steps(self) -> jax.Array:
        return 5 * self.size

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        room = free = far = self.room(size)
        words = random.bits(stream, (2 * self.num_objects + 4,))
        codes = different_things([words[:, i] for i in range(self.num_objects)])
        things = []
        for i, code in enumerate(codes):
            x, y, _ = place(far, words[:, self.num_objects + i])
            things.append((cell(x, y), code))
            free = free.remove(x, y)
            for dx in (-1, 0, 1):
                for dy in (-1, 0, 1):
                    far = far.remove(x + dx, y + dy)
        objects = Objects.stack(*things)
        moved = choice(words[:, -1], jnp.full_like(size, self.num_objects))
        near = other_choice(words[:, -2], jnp.full_like(size, self.num_objects), taken=moved)
        codes = [jnp.take_along_axis(objects.code, i[:, None], axis=1)[:, 0] for i in (moved, near)]
        target = jnp.take_along_axis(objects.cell, near[:, None], axis=1)[:, 0]
        first, second = ((_mission.colour(code), _mission.kind(code)) for code in codes)
        target = jnp.stack([codes[0].astype(jnp.int32), target], axis=1)
        mission = _mission.phrase("put the", *first, "near the", *second)
        return start_state(room, objects, place_agent(free, words[:, -3], words[:, -4]), target, mission)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        held, wanted = after.objects.code_at(CARRIED), after.target[:, 0]
        wrong = (action == PICKUP) & (held != 0) & (held.astype(jnp.int32) != wanted)
        drops = (action == DROP) & (before.objects.code_at(CARRIED) != 0)
        here, there = cell(*after.agent.ahead), after.target[:, 1]
        near = (jnp.abs((here & 31) - (there & 31)) <= 1) & (jnp.abs((here >> 5) - (there >> 5)) <= 1)
        return drops & (held == 0) & near, wrong | drops
