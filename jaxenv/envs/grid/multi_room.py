"""Walk through a chain of rooms, opening the door to each next one, to the goal in the last.

Reference: MiniGrid 3.2.0, ``MiniGrid-MultiRoom-*-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        num_rooms rooms of 4 to max_room_size by 4 to max_room_size cells, walls included, each next to the one
              before it, with a closed door between them whose colour differs from the previous door's; the agent
              in a random cell of the first room, facing a random direction; the goal in a random cell of the last
Terminates    on the goal
Time limit    20 * num_rooms: 40 and 120 (registry)

MiniGrid tries 8 random places for each next room. If none of them is free it starts again with the first room. Here
every lane has 40 attempts at such a chain at once, and the first one with all rooms counts. For six rooms of up to 10
cells, all 40 fail with a probability of 1e-7; the longest chain counts then.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.envs.grid._cell_set import CellSet, running_sum
from jaxenv.envs.grid._objects import DOOR, GOAL, GONE, GREEN, Objects, encode
from jaxenv.envs.grid.grid_world import CLOSED, cell, choice
from jaxenv.envs.grid.object_world import ObjectWorld, State, place, place_agent, start_state

_ATTEMPTS, _TRIES = 40, 8
_SMALLEST_ROOM = 4
_BEYOND = np.int32(64)  # a column to the right of all rooms
_RIGHT, _DOWN, _LEFT, _UP = (np.int32(i) for i in range(4))  # walls of a room


@tree.struct
class _Room:
    """Rooms and the doors by which they are entered, int32 of any shape each."""

    left: jax.Array
    top: jax.Array
    width: jax.Array  # walls included
    height: jax.Array
    entry: jax.Array  # the wall with the door
    door: jax.Array  # cell, or GONE

    def cells(self, margin: int, num_lines: int) -> CellSet:
        """Returns the cells of each room, without the outermost ``margin`` rows and columns."""
        right, bottom = self.left + self.width - margin, self.top + self.height - margin
        return CellSet.rectangle(self.left + margin, right, self.top + margin, bottom, num_lines)


class MultiRoom(ObjectWorld):
    """A chain of rooms; see the module docstring."""

    max_size: int = tree.static(default=25)
    num_rooms: int = tree.static(default=6, low=2, high=6, doc="number of rooms")
    max_room_size: int = tree.static(default=10, low=_SMALLEST_ROOM, high=10, doc="longest room, walls included")

    mission = "traverse the rooms to get to the goal"
    # In smaller grids most attempts at a chain of rooms would fail.
    smallest = 25

    @property
    def num_doors(self) -> int:  # type: ignore[override]
        return self.num_rooms - 1

    def _default_max_steps(self) -> Any:
        return np.int32(20 * self.num_rooms)

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        rooms = self._rooms(stream, size)
        words = random.bits(random.fold_in(stream, "places"), (self.num_rooms + 3,))

        walls = rooms.cells(0, self.num_lines) - rooms.cells(1, self.num_lines)
        walls = jax.tree.map(lambda lines: jax.lax.reduce(lines, np.uint32(0), jax.lax.bitwise_or, (1,)), walls)
        floor = CellSet.rectangle(0 * size, size, 0 * size, size, self.num_lines) - walls
        first, last = (jax.tree.map(lambda x, i=i: x[:, i], rooms).cells(1, self.num_lines) for i in (0, -1))
        agent = place_agent(first, words[:, -1], words[:, -2])
        goal_x, goal_y, _ = place(last.remove(agent.x, agent.y), words[:, -3])

        colour = choice(words[:, 0], jnp.full_like(size, 6))
        steps = 1 + choice(words[:, 1:-4], jnp.full_like(words[:, 1:-4], 5))
        colours = running_sum(jnp.concatenate([colour[:, None], steps], axis=1)) % 6
        doors = Objects(rooms.door[:, 1:], encode(DOOR, colours.astype(jnp.uint32), CLOSED))
        goal = Objects.stack((cell(goal_x, goal_y), encode(GOAL, GREEN)))
        objects = jax.tree.map(lambda *columns: jnp.concatenate(columns, axis=1), doors, goal)
        return start_state(floor | CellSet.from_cells(objects.cell, self.num_lines), objects, agent)

    def _rooms(self, stream: random.Stream, size: jax.Array) -> _Room:
        """Draws the rooms ``[B, num_rooms]`` of every lane; if it has fewer, the last one is repeated."""
        words = random.bits(stream, (self.num_rooms - 1, _ATTEMPTS, _TRIES))
        first_words = random.bits(random.fold_in(stream, "first"), (2, _ATTEMPTS))
        first = self._first_room(first_words[:, 0], first_words[:, 1], size[:, None])
        slots = np.arange(self.num_rooms - 1, dtype=np.int32)

        def add(carry: Any, inputs: Any) -> tuple[Any, _Room]:
            earlier, room, complete = carry
            word, slot = inputs
            tried = self._next_rooms(word, jax.tree.map(lambda x: x[:, :, None], room))
            free = _is_free(tried, earlier, size[:, None, None]) & complete[:, :, None]
            following = _first(free, tried, otherwise=tree.rebuild(room, door=jnp.full_like(room.door, GONE)))
            earlier = jax.tree.map(
                lambda all, x: jnp.where(slots[None, None] == slot, x[:, :, None], all), earlier, _bounds(room)
            )
            return (earlier, following, jnp.any(free, axis=2)), following

        # A scan, because that many copies of its body would take seconds to compile.
        nowhere = (jnp.full((*first.left.shape, slots.size), _BEYOND),) * 4
        start = (nowhere, first, jnp.full(first.left.shape, True))
        _, others = jax.lax.scan(add, tree.vary_like(stream.k0, start), (jnp.swapaxes(words, 0, 1), slots))
        rooms = jax.tree.map(lambda x, more: jnp.concatenate([x[None], more]), first, others)
        placed = jnp.sum(rooms.door[1:] != GONE, axis=0, dtype=jnp.int32)
        best = jnp.argmax(placed, axis=1)[None, :, None]
        return jax.tree.map(lambda x: jnp.take_along_axis(x, best, axis=2)[:, :, 0].T, rooms)

    def _first_room(self, across: jax.Array, along: jax.Array, size: jax.Array) -> _Room:
        """Draws a room that fits into the grid; its missing door counts as one in the left wall.

        All pairs of a place and a length that fit are equally likely. A room must not reach the last row.
        """
        lengths = np.arange(_SMALLEST_ROOM, self.max_room_size + 1, dtype=np.int32)
        (left, width), (top, height) = (
            _place_and_length(word, lengths, limit) for word, limit in ((across, size), (along, size - 1))
        )
        return _Room(left, top, width, height, jnp.full_like(left, _LEFT), jnp.full_like(left, GONE))

    def _next_rooms(self, word: jax.Array, room: _Room) -> _Room:
        """Draws rooms ``[B, A, T]`` that could follow the rooms ``[B, A, 1]``, given a random word for each."""
        lengths = self.max_room_size - _SMALLEST_ROOM + 1
        number, word = _digit(word, 3)
        exit = number + (number >= room.entry).astype(jnp.int32)  # skips the wall with the door
        is_side = (exit == _RIGHT) | (exit == _LEFT)
        place, word = _digit(word, jnp.where(is_side, room.height, room.width) - 2)
        width, word = _digit(word, lengths)
        height, word = _digit(word, lengths)
        width, height = width + _SMALLEST_ROOM, height + _SMALLEST_ROOM
        offset, _ = _digit(word, jnp.where(is_side, height, width) - 2)

        x = jnp.where(is_side, room.left + jnp.where(exit == _RIGHT, room.width - 1, 0), room.left + 1 + place)
        y = jnp.where(is_side, room.top + 1 + place, room.top + jnp.where(exit == _DOWN, room.height - 1, 0))
        left = jnp.where(is_side, x - jnp.where(exit == _LEFT, width - 1, 0), x - 1 - offset)
        top = jnp.where(is_side, y - 1 - offset, y - jnp.where(exit == _UP, height - 1, 0))
        return _Room(left, top, width, height, entry=(exit + 2) % 4, door=cell(x, y))


def _bounds(room: _Room) -> tuple[jax.Array, ...]:
    """Returns the left and right, top and bottom of rooms; the room ends before its right and its bottom."""
    return room.left, room.left + room.width, room.top, room.top + room.height


def _is_free(room: _Room, earlier: tuple[jax.Array, ...], size: jax.Array) -> jax.Array:
    """Returns whether rooms ``[B, A, T]`` are in the grid and apart from earlier ones of bounds ``[B, A, N]``."""
    left, right, top, bottom = _bounds(room)
    old_left, old_right, old_top, old_bottom = (x[:, :, None, :] for x in earlier)
    # As in MiniGrid, a room may touch another one on its right or below, but not on its left or above.
    apart = (right[..., None] < old_left) | (old_right <= left[..., None])
    apart = apart | (bottom[..., None] < old_top) | (old_bottom <= top[..., None])
    return (left >= 0) & (top >= 0) & (right <= size) & (bottom < size) & jnp.all(apart, axis=3)


def _first(free: jax.Array, rooms: _Room, otherwise: _Room) -> _Room:
    """Returns the first free one of rooms ``[B, A, T]``, and other rooms ``[B, A]`` where none is free."""
    number = np.arange(_TRIES, dtype=np.int32)[None, None]
    first = jnp.min(jnp.where(free, number, np.int32(_TRIES)), axis=2)
    chosen, found = number == first[:, :, None], first < _TRIES

    def pick(rooms: jax.Array, otherwise: jax.Array) -> jax.Array:
        return jnp.where(found, jnp.sum(jnp.where(chosen, rooms, 0), axis=2, dtype=jnp.int32), otherwise)

    return jax.tree.map(pick, rooms, otherwise)


def _digit(word: jax.Array, count: jax.Array | int) -> tuple[jax.Array, jax.Array]:
    """Splits a random word (uint32) into a number in [0, count), int32, and a random word for further numbers.

    The remaining word has as many random bits less as the number has, so a few small numbers come from one word.
    """
    factor = jnp.broadcast_to(jnp.asarray(count, jnp.uint32), word.shape)
    return random.high_product(word, factor).astype(jnp.int32), word * factor


def _place_and_length(word: jax.Array, lengths: np.ndarray, limit: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws a place, from 0, and one of ``lengths`` (int32 ``[L]``, in steps of 1) that ends at most at a limit.

    All such pairs are equally likely. Words are uint32 ``[B, A]``, limits int32 ``[B, 1]``.
    """
    # A length has limit - length + 1 places, so this is how many pairs have that length or a smaller one.
    up_to = limit * np.arange(1, len(lengths) + 1, dtype=np.int32)[None] - np.cumsum(lengths - 1, dtype=np.int32)[None]
    number = choice(word, jnp.broadcast_to(up_to[:, -1:], word.shape))
    longer = up_to[:, None, :] <= number[:, :, None]
    before = jnp.max(jnp.where(longer, up_to[:, None, :], 0), axis=2)
    return number - before, lengths[0] + jnp.sum(longer, axis=2, dtype=jnp.int32)
