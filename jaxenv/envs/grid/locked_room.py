"""Fetch the key that the mission names from one of six rooms, unlock another room with it, and walk to the goal there.

Reference: MiniGrid 3.2.0, ``MiniGrid-LockedRoom-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        three rooms on either side of a hallway, with doors of different random colours; a random one is locked
              and has the goal in a random cell, another one has the key; the agent in a random cell of the hallway,
              facing a random direction
Terminates    on the goal
Time limit    10 * size: 190 (registry)
"""

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import DOOR, GOAL, GREEN, KEY, Objects, different_colours, encode
from jaxenv.envs.grid.grid_world import CLOSED, LOCKED, cell, choice, other_choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, place_agent, start_state


class LockedRoom(ObjectWorld):
    """Six rooms and a hallway; see the module docstring."""

    max_size: int = tree.static(default=19)
    observe_mission: bool = tree.static(default=True)

    mission = "get the key from the room unlock the door and go to the goal"
    smallest = 13
    num_doors = 6

    def _default_max_steps(self) -> jax.Array:
        return 10 * self.size

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        words = random.bits(stream, (14,))
        left, right, height = size // 2 - 2, size // 2 + 2, size // 3
        one = jnp.ones_like(size)
        hallway = CellSet.rectangle(left + 1, right, one, size - 1, self.max_size)
        floor = self.room(size).remove_column(left).remove_column(right)
        floor = (floor.remove_row(height).remove_row(2 * height)) | hallway

        locked = choice(words[:, 0], jnp.full_like(size, 6))
        with_key = other_choice(words[:, 1], jnp.full_like(size, 6), taken=locked)
        colours = different_colours([words[:, i] for i in range(2, 8)])
        things = []
        for i, colour in enumerate(colours):  # from top to bottom, left before right
            x, y = (left, right)[i % 2], i // 2 * height + 3
            floor = floor.add(x, y)
            things.append((cell(x, y), encode(DOOR, colour, jnp.where(locked == i, LOCKED, CLOSED))))
        of_room = jnp.stack(colours, axis=1)
        of_lock, of_key = (jnp.take_along_axis(of_room, i[:, None], axis=1)[:, 0] for i in (locked, with_key))

        goal = _in_room(locked, words[:, 8], words[:, 9], size)
        key = _in_room(with_key, words[:, 10], words[:, 11], size)
        objects = Objects.stack(*things, (key, encode(KEY, of_lock)), (goal, encode(GOAL, GREEN)))
        lock, room = _mission.colour(encode(KEY, of_lock)), _mission.colour(encode(KEY, of_key))
        mission = ("get the", lock, "key from the", room, "room unlock the", lock, "door and go to the goal")
        agent = place_agent(hallway, words[:, 12], words[:, 13])
        return start_state(floor, objects, agent, mission=_mission.phrase(*mission))


def _in_room(room: jax.Array, across: jax.Array, along: jax.Array, size: jax.Array) -> jax.Array:
    """Returns a random cell of a room (int32 ``[B]``), given two random words."""
    width = size // 2 - 3
    x = choice(across, width) + jnp.where(room % 2 == 0, 1, size // 2 + 3)
    return cell(x, room // 2 * (size // 3) + 1 + choice(along, size // 3 - 1))
