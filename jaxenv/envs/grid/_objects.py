"""The objects of grid worlds: doors, keys, balls, boxes and goals of six colours, by MiniGrid's codes."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.grid._cell_set import nth_bit_of
from jaxenv.envs.grid.grid_world import OPEN, choice

GONE = np.int32(-2)  # position of an object that is not in the grid: a box that was opened, a door that was not built

# MiniGrid's codes of kinds and colours.
DOOR, KEY, BALL, BOX, GOAL = (np.uint32(i) for i in range(4, 9))
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = (np.uint32(i) for i in range(6))


@tree.struct
class Objects:
    """The objects of every lane, K of them in an order that the level chooses; no two are in the same cell."""

    cell: jax.Array  # int32 [B, K], the cell, CARRIED or GONE
    # uint32 [B, K], kind | colour << 8 | state << 16 | hidden << 24. Only doors have a state; hidden is 1 + the colour
    # of the key in a box, else 0.
    code: jax.Array

    @staticmethod
    def stack(*objects: tuple[Any, Any]) -> "Objects":
        """Returns objects given as pairs of a cell, int32 ``[B]``, and a code, uint32 ``[B]`` or one for all lanes."""
        lanes = objects[0][0].shape
        cells, codes = ([jnp.broadcast_to(x, lanes) for x in column] for column in zip(*objects, strict=True))
        return Objects(jnp.stack(cells, axis=1), jnp.stack(codes, axis=1))

    def code_at(self, cell: Any) -> jax.Array:
        """Returns the code of the object in a cell (int32 ``[B]`` or ``CARRIED``), uint32 ``[B]``; 0 for none."""
        here = self.cell == (cell if jnp.ndim(cell) == 0 else cell[:, None])
        return jnp.sum(jnp.where(here, self.code, np.uint32(0)), axis=1, dtype=jnp.uint32)


def kind(code: jax.Array) -> jax.Array:
    """Returns the kind of a code, uint32 of any shape."""
    return code & np.uint32(255)


def colour(code: jax.Array) -> jax.Array:
    """Returns the colour of a code, uint32 of any shape."""
    return (code >> np.uint32(8)) & np.uint32(255)


def door_state(code: jax.Array) -> jax.Array:
    """Returns the state of a door, int32 of any shape, given its code."""
    return (code >> np.uint32(16)).astype(jnp.int32)


def encode(kind: Any, colour: Any, state: Any = OPEN) -> Any:
    """Returns the code of an object."""
    return kind | colour << np.uint32(8) | state.astype(np.uint32) << np.uint32(16)


def key_of(colour: jax.Array, in_box: bool) -> jax.Array:
    """Returns the code of a key of a colour, or of a grey box that hides it, uint32 ``[B]``."""
    return encode(BOX, GREY) | (colour + np.uint32(1)) << np.uint32(24) if in_box else encode(KEY, colour)


def random_code(kind: Any, word: jax.Array, state: Any = OPEN) -> jax.Array:
    """Returns the code of an object of a random colour, given a random word, uint32 of any shape."""
    return encode(kind, random.high_product(word, jnp.full_like(word, 6)), state)


def different_colours(words: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Returns different random colours, uint32 ``[B]`` each, one for each random word ``[B]``; at most six."""
    return in_one_kernel(_different, tuple(words), 6)


def different_things(words: Sequence[jax.Array]) -> list[jax.Array]:
    """Returns the codes of random keys, balls and boxes of which no two are alike, one for each random word ``[B]``."""
    numbers = in_one_kernel(_different, tuple(words), 18)
    return [encode(KEY + number // np.uint32(6), number % np.uint32(6)) for number in numbers]


def _different(words: Sequence[jax.Array], count: int) -> tuple[jax.Array, ...]:
    """Returns different random numbers below ``count``, uint32 ``[B]`` each."""
    free = jnp.full_like(words[0], 2**count - 1)
    numbers = []
    for i, word in enumerate(words):
        number = nth_bit_of(free, choice(word, jnp.full_like(word, count - i))).astype(jnp.uint32)
        numbers.append(number)
        free = free & ~(np.uint32(1) << number)
    return tuple(numbers)
