"""Walk to the goal through the openings in rivers that cross the room from side to side.

Reference: MiniGrid 3.2.0, ``MiniGrid-LavaCrossingS*-v0`` and ``MiniGrid-SimpleCrossingS*-v0``
(tests/envs/grid/objects/test_levels.py).

Observation   see grid_world.py
Action        see grid_world.py; the last four have no effect
Reward        see grid_world.py
Starts        in the upper left corner, facing right; num_crossings random rows and columns with even coordinates are
              rivers; a random way from area to area, right and down, opens each river once, in a random cell
Terminates    on the goal and in lava
Time limit    4 * size**2: 324 and 484 (registry)
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.grid._cell_set import CellSet, nth_bit_of
from jaxenv.envs.grid.grid_world import GridWorld, State, cell, choice, in_corner


class Crossing(GridWorld):
    """Base class of the two kinds of crossings; sizes are odd."""

    max_size: int = tree.static(default=9)
    num_crossings: int = tree.static(default=1, low=1, doc="number of rivers")

    has_lava: ClassVar[bool]  # whether rivers are lava, not walls
    odd = True
    sized_by = "num_crossings"

    @property
    def smallest(self) -> int:  # type: ignore[override]
        # There are (size - 3) // 2 columns and as many rows that can be rivers.
        return max(5, self.num_crossings + 3 + self.num_crossings % 2)

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        words = random.separate_bits(stream, 3 * self.num_crossings)
        vertical, horizontal, openings = in_one_kernel(_draw_rivers, size, words)
        room = self.room(size)
        lines = np.arange(self.max_size, dtype=np.uint32)[None]
        rivers = room & CellSet(
            _river_or(horizontal[:, None] >> lines, vertical[:, None]),
            _river_or(vertical[:, None] >> lines, horizontal[:, None]),
        )
        for x, y in openings:
            rivers = rivers.remove(x, y)
        floor, lava = (room, rivers) if self.has_lava else (room - rivers, None)
        return self.start(floor, cell(size - 2, size - 2), in_corner(size), lava)


class LavaCrossing(Crossing):
    """Walk to the goal through the openings in rivers of lava."""

    mission = "avoid the lava and get to the green goal square"
    has_lava = True


class SimpleCrossing(Crossing):
    """Walk to the goal through the openings in walls that cross the room."""

    mission = "find the opening and get to the green goal square"
    has_lava = False


def _draw_rivers(
    size: jax.Array, words: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array, list[tuple[jax.Array, jax.Array]]]:
    """Draws rivers without repetition, and an opening in each, from three words uint32 ``[B]`` for each river.

    Returns the columns and the rows that are rivers, one bit each, uint32 ``[B]``, and x and y of the openings.
    """
    num, one = len(words) // 3, np.uint32(1)
    count = (size - 3) // 2  # of the columns that can be a river, and of the rows
    free = (one << (2 * count).astype(jnp.uint32)) - one
    vertical, horizontal = jnp.zeros_like(free), jnp.zeros_like(free)
    for i, word in enumerate(words[:num]):
        drawn = nth_bit_of(free, choice(word, 2 * count - i))
        free = free & ~(one << drawn.astype(jnp.uint32))
        is_column = drawn < count
        river = one << (2 + 2 * jnp.where(is_column, drawn, drawn - count)).astype(jnp.uint32)
        vertical = vertical | jnp.where(is_column, river, np.uint32(0))
        horizontal = horizontal | jnp.where(is_column, np.uint32(0), river)

    openings = []
    last = one << (size - 1).astype(jnp.uint32)  # the outer wall
    left, top = jnp.zeros_like(size), jnp.zeros_like(size)
    for i in range(num):
        # These lines enclose the area that the way has reached.
        right, bottom = _first_after(vertical | last, left), _first_after(horizontal | last, top)
        rest = jax.lax.population_count(vertical & ~_up_to(left)).astype(jnp.int32)
        goes_right = choice(words[num + i], jnp.full_like(size, num - i)) < rest
        low, high = jnp.where(goes_right, top, left), jnp.where(goes_right, bottom, right)
        gap = low + 1 + choice(words[2 * num + i], high - low - 1)
        openings.append((jnp.where(goes_right, right, gap), jnp.where(goes_right, gap, bottom)))
        left, top = jnp.where(goes_right, right, left), jnp.where(goes_right, top, bottom)
    return vertical, horizontal, openings


def _river_or(is_river: jax.Array, crossing: jax.Array) -> jax.Array:
    """Returns the lines of rivers: all cells where bit 0 of ``is_river`` is set, else the cells of ``crossing``."""
    return jnp.where(is_river & np.uint32(1) != 0, np.uint32(2**32 - 1), crossing)


def _up_to(number: jax.Array) -> jax.Array:
    """Returns a word in which the bits 0 to ``number`` are set, uint32 ``[B]``."""
    return (np.uint32(2) << number.astype(jnp.uint32)) - np.uint32(1)


def _first_after(word: jax.Array, number: jax.Array) -> jax.Array:
    """Returns the first bit of a word above ``number`` that is set, int32 ``[B]``."""
    rest = word & ~_up_to(number)
    return jax.lax.population_count((rest & (~rest + np.uint32(1))) - np.uint32(1)).astype(jnp.int32)
