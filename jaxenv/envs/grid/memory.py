"""Look at an object, walk down a hallway, and turn to the side where there is another object of its kind.

Reference: MiniGrid 3.2.0, ``MiniGrid-MemoryS*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py; 3 picks nothing up, and 3, 4 and 5 have no effect
Reward        see grid_world.py
Starts        a room with a green key or a green ball, a hallway to the right of it, and a key and a ball, in random
              order, at the two ends of a fork at the end of the hallway, whose length is random with random_length; the
              agent in a random cell of the middle row before the fork, facing right
Terminates    next to either object of the fork, with a reward next to the one of the same kind as the first object
Time limit    5 * size**2: 245 to 1445 (registry)
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core import Transition
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import BALL, GREEN, KEY, Objects, encode
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import PICKUP, TOGGLE, cell, choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, start_state


class Memory(ObjectWorld):
    """A room, a hallway and a fork; see the module docstring."""

    max_size: int = tree.static(default=7)
    random_length: bool = tree.static(default=False, doc="whether the hallway has a random length")

    mission = "go to the matching object at the end of the hallway"
    smallest = 7
    odd = True
    steps_per_cell = 5

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        words = random.bits(stream, (4,))
        middle = size // 2
        fork = size - 3  # the column of the wall before the fork
        if self.random_length:
            fork = 4 + choice(words[:, 0], size - 6)

        key_first, key_above = (choice(words[:, i], jnp.full_like(size, 2)) == 0 for i in (1, 2))
        key, ball = encode(KEY, GREEN), encode(BALL, GREEN)
        objects = Objects.stack(
            (cell(1, middle - 1), jnp.where(key_first, key, ball)),
            (cell(fork + 1, middle - 2), jnp.where(key_above, key, ball)),
            (cell(fork + 1, middle + 2), jnp.where(key_above, ball, key)),
        )
        above, below = cell(fork + 1, middle - 1), cell(fork + 1, middle + 1)
        up = key_first == key_above
        return start_state(
            self._floor(size, fork),
            objects,
            Pose(1 + choice(words[:, 3], fork), middle, jnp.zeros_like(size)),
            target=jnp.stack([jnp.where(up, above, below), jnp.where(up, below, above)], axis=1),
        )

    def _floor(self, size: jax.Array, fork: jax.Array) -> CellSet:
        number = np.arange(self.max_size, dtype=np.int32)
        x, y = number[None, None, :], number[None, :, None]
        last, fork = size[:, None, None] - 1, fork[:, None, None]
        aside = jnp.abs(y - size[:, None, None] // 2)
        wall = (aside == 2) & (x <= 4)  # of the room
        wall = wall | ((aside == 1) & (x >= 4) & (x < fork))  # of the hallway
        wall = wall | ((aside > 0) & (x == fork)) | (x == fork + 2)  # of the fork
        inside = (x > 0) & (x < last) & (y > 0) & (y < last)
        return CellSet.from_plane(inside & ~wall)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return super().transition(state, jnp.where(action == PICKUP, TOGGLE, action), stream)

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        here = cell(after.agent.x, after.agent.y)
        return here == after.target[:, 0], here == after.target[:, 1]
