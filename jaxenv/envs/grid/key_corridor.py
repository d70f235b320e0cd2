"""Find the key in one of the rooms along a corridor, unlock another room with it, and pick up the ball in there.

Reference: MiniGrid 3.2.0, ``MiniGrid-KeyCorridorS*R*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        num_rows rows of three rooms of size by size cells, the middle ones without walls between them; a random
              room on the right has a locked door to the middle and a ball, a random room on the left has the key; then
              closed doors are added in random walls between other rooms until every room can be reached; all colours
              are random; the agent in a random cell of the middle room, facing at random, but not the locked door
Terminates    when the agent carries the ball
Time limit    30 * size**2: 270 to 1080 (registry)
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._objects import BALL, DOOR, GONE, KEY, Objects, colour, encode, random_code
from jaxenv.envs.grid.grid_world import CLOSED, LOCKED, cell, choice
from jaxenv.envs.grid.object_world import State, picks_up, start_state
from jaxenv.envs.grid.room_grid import RoomGrid, place_agent_clear_of

_NO_DOOR = np.uint32(2**32 - 1)  # weight of a door that must not be built


class KeyCorridor(RoomGrid):
    """A corridor with rooms on both sides; see the module docstring."""

    max_size: int = tree.static(default=3)
    num_rows: int = tree.static(default=1, low=1, high=3, doc="number of rows of rooms")
    observe_mission: bool = tree.static(default=True)

    mission = "pick up the ball"
    smallest = 3
    steps_per_cell = 30
    num_columns = 3

    @property
    def num_doors(self) -> int:  # type: ignore[override]
        return len(_walls(self.num_rows)[0])

    def initial(self, stream: random.Stream) -> State:
        size, rows = self.sizes(stream.shape), self.num_rows
        words = random.bits(stream, (6,))  # one array: XLA would recompute separate words for every use
        locked, with_key = (choice(words[:, i], jnp.full_like(size, rows)) for i in (0, 1))
        rooms = self.rooms(size)
        rooms = rooms | CellSet.rectangle(size, 2 * size - 2, jnp.ones_like(size), rows * (size - 1), self.num_lines)

        doors, lock = self._doors(random.fold_in(stream, "doors"), locked, size)
        ball_x, ball_y, _ = self.place_object(rooms & self.in_room(2, locked, size), words[:, 2], size)
        key_x, key_y, _ = self.place_object(rooms & self.in_room(0, with_key, size), words[:, 3], size)
        ball, key = random_code(BALL, words[:, 4]), encode(KEY, colour(doors.code_at(lock)))
        things = Objects.stack((cell(ball_x, ball_y), ball), (cell(key_x, key_y), key))
        near_lock, middle = CellSet.from_cells(lock[:, None], self.num_lines), self.in_room(1, rows // 2, size)
        agent = place_agent_clear_of(near_lock, rooms & middle, words[:, 5])
        return start_state(
            rooms | CellSet.from_cells(doors.cell, self.num_lines),
            jax.tree.map(lambda *columns: jnp.concatenate(columns, axis=1), doors, things),
            agent,
            mission=_mission.phrase("pick up the", _mission.colour(ball), "ball"),
        )

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        return picks_up(BALL, action, after), False

    def _doors(self, stream: random.Stream, locked: jax.Array, size: jax.Array) -> tuple[Objects, jax.Array]:
        """Draws the doors, some of them ``GONE``; also returns the cell of the one in ``locked`` rows, int32 ``[B]``.

        MiniGrid adds doors in a random order until all rooms are connected. In the order of random weights, these are
        all doors up to the heaviest one of the minimum spanning tree.
        """
        rows = self.num_rows
        first, second = _walls(rows)
        words = random.bits(stream, (3, len(first)))
        # The number of the door in the lower bits makes all weights of a lane distinct.
        weight = (words[:, 0] & np.uint32(2**32 - 16)) | np.arange(len(first), dtype=np.uint32)[None]
        locked_room = 2 + 3 * locked[:, None]
        is_lock = (first[None] == locked_room - 1) & (second[None] == locked_room)
        near_lock = (first[None] == locked_room) | (second[None] == locked_room)
        weight = jnp.where(is_lock, np.uint32(0), jnp.where(near_lock, _NO_DOOR, weight))
        built = weight <= _bottleneck(weight, rows)[:, None]

        # A door is to the right of its first room, or below it.
        inner = jnp.broadcast_to(size[:, None] - 2, weight.shape).astype(jnp.uint32)
        along = 1 + random.high_product(words[:, 1], inner)
        left, top = (n[None] * (size[:, None] - 1) for n in (first % 3, first // 3))
        beside = second == first + 1
        x = left + jnp.where(beside[None], size[:, None] - 1, along.astype(jnp.int32))
        y = top + jnp.where(beside[None], along.astype(jnp.int32), size[:, None] - 1)
        code = random_code(DOOR, words[:, 2], jnp.where(is_lock, LOCKED, CLOSED))
        lock = jnp.sum(jnp.where(is_lock, cell(x, y), 0), axis=1, dtype=jnp.int32)
        return Objects(jnp.where(built, cell(x, y), GONE), code), lock


def _walls(rows: int) -> np.ndarray:
    """Returns the rooms on both sides of every wall that can have a door, int32 ``[2, D]``, counted row by row."""
    beside = [(3 * row + column, 3 * row + column + 1) for row in range(rows) for column in (0, 1)]
    below = [(3 * row + column, 3 * row + column + 3) for row in range(rows - 1) for column in (0, 2)]
    return np.array([*beside, *below], np.int32).T


def _bottleneck(weight: jax.Array, rows: int) -> jax.Array:
    """Returns the largest weight of the minimum spanning tree of the rooms, by Prim's algorithm, uint32 ``[B]``.

    The doors have weights uint32 ``[B, D]``; the rooms of the middle column are connected.
    """
    first, second = _walls(rows)
    middle = np.array([3 * row + 1 for row in range(rows - 1)], np.int32)
    first, second = np.concatenate([first, middle]), np.concatenate([second, middle + 3])
    open_walls = jnp.zeros((weight.shape[0], rows - 1), jnp.uint32)
    weight = jnp.concatenate([weight, open_walls], axis=1)
    rooms = np.uint32(1) << first.astype(np.uint32)[None], np.uint32(1) << second.astype(np.uint32)[None]

    def grow(_: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reached, largest = carry
        ends = [(reached[:, None] & room) != 0 for room in rooms]
        candidate = jnp.where(ends[0] ^ ends[1], weight, _NO_DOOR)
        lightest = jnp.min(candidate, axis=1)
        new = jnp.where(candidate == lightest[:, None], rooms[0] | rooms[1], np.uint32(0))
        # Walls of equal weight are open anyway, so they may be taken together.
        reached = reached | jax.lax.reduce(new, np.uint32(0), jax.lax.bitwise_or, (1,))
        return reached, jnp.where(lightest == _NO_DOOR, largest, jnp.maximum(largest, lightest))

    # Under shard_map the carry must vary over the mesh from the start.
    start = tree.vary_like(weight, (jnp.full_like(weight[:, 0], 2), jnp.zeros_like(weight[:, 0])))
    return jax.lax.fori_loop(np.int32(0), np.int32(3 * rows - 1), grow, start)[1]
