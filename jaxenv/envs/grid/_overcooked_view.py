"""What the cooks observe: the layers of Overcooked-AI, computed as one axis of bytes.

Most bytes are constant, and each of the others depends on one byte of the state, a *source*, or on what the other cook
carries. So an element selects its source and compares some of its bits, all by constant tables.
"""

import functools
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.envs.grid._overcooked_layout import COUNTER, DELIVERY, FLOOR, ONIONS, PLATES, POT, Layout, parse

Arrays: TypeAlias = tuple[jax.Array, ...]

NUM_LAYERS = 26
EMPTY_POT, FULL_POT = 23, 20  # statuses of a pot: 23 to 21 with 0 to 2 onions, from 20 on it cooks, at 0 it is ready
URGENT_STEPS = 40
_COOK, _FACING = (0, 1), (2, 6)  # layers of the observer and of the other cook
_POT_ONIONS, _SOUP_ONIONS, _TIME, _READY, _PLATE, _ONION, _URGENT = 16, 18, 20, 21, 22, 23, 25
_STATIC = {POT: 10, COUNTER: 11, ONIONS: 12, PLATES: 14, DELIVERY: 15}
# The largest value of each layer; 13, 17, 19 and 24 are tomatoes.
LARGEST = np.ones(NUM_LAYERS, np.uint8)
LARGEST[[13, 17, 19, 24]], LARGEST[[_POT_ONIONS, _SOUP_ONIONS]], LARGEST[_TIME] = 0, 3, FULL_POT - 1
# Layers that show an item, with their values.
_OF_ITEM = ((1, _ONION, 1), (2, _PLATE, 1), (3, _SOUP_ONIONS, 3), (3, _READY, 1))
# A byte per pot: the number of onions or the remaining time, and two flags.
_VALUE, _COOKS, _IS_READY = 31, 64, 128


def sources(cooks: Any, counters: Arrays, pots: Arrays, urgent: jax.Array) -> Arrays:
    """Returns the bytes on which an observation depends, uint8 ``[B]`` each, in the order of `_tables`.

    Cooks, counters and pots come from an `overcooked.State`; ``urgent``, bool ``[B]``, is whether few steps remain.
    """
    poses = [4 * cook.cell + cook.direction for cook in cooks]
    carried = [cook.cell + 64 * cook.item for cook in cooks]
    of_counters = [word >> np.uint32(8 * i) for word in counters for i in range(4)]
    of_pots = [_pot(status) for status in pots]
    return tuple(x.astype(jnp.uint8) for x in (*carried, *poses, *of_counters, *of_pots, urgent))


def _pot(status: jax.Array) -> jax.Array:
    cooks = status < FULL_POT
    value = jnp.where(cooks, status, jnp.minimum(EMPTY_POT - status, 3))
    return value + jnp.where(cooks, _COOKS, 0) + jnp.where(status == 0, _IS_READY, 0)


def layers(layout: str, *values: jax.Array) -> jax.Array:
    """Returns the observations, uint8 ``[B, 2 * H * W * 26]``, given the `sources`, uint8 ``[B, 1]`` each."""
    which, mask, equal, other, then, bits = _tables(layout)
    value = values[1]
    for number in np.unique(which).tolist():
        if number != 1:
            value = jnp.where(which == number, values[number], value)
    is_shown = (value & mask == equal) | (values[0] == other)
    return jnp.where(is_shown, then, value & bits)


@functools.lru_cache(maxsize=64)
def _tables(layout: str) -> tuple[np.ndarray, ...]:
    """Returns for each byte of the observations, uint8 ``[1, 2 * H * W * 26]``: source, mask, equal, other, then, bits.

    An element is ``then`` if the bits ``mask`` of its source equal ``equal``, or if the first cook carries ``other``;
    otherwise it is the bits ``bits`` of its source.
    """
    kitchen = parse(layout)
    tables = np.zeros((6, 2, kitchen.cells.size, NUM_LAYERS), np.uint8)
    which, mask, equal, other, then, bits = tables
    which[:] = 1

    def show(at: tuple[int, int, int], source: int, bits_of_source: int, equals: int, value: int) -> None:
        which[at], mask[at], equal[at], then[at] = source, bits_of_source, equals, value

    first_pot = 4 + 4 * num_words(kitchen)
    urgent = first_pot + len(kitchen.where(POT))
    for observer in range(2):
        for cell, code in enumerate(kitchen.cells.tolist()):
            kind, number = code % 8, code // 8
            show((observer, cell, _URGENT), urgent, 1, 1, 1)
            if kind == FLOOR:
                for cook in range(2):
                    layer, pose = int(cook != observer), 2 + cook
                    show((observer, cell, _COOK[layer]), pose, 0xFC, 4 * cell, 1)
                    for direction in range(4):
                        show((observer, cell, _FACING[layer] + direction), pose, 0xFF, 4 * cell + direction, 1)
                for item, layer, value in _OF_ITEM:
                    show((observer, cell, layer), 1, 0xFF, cell + 64 * item, value)
                    other[observer, cell, layer] = cell + 64 * item
                continue
            then[observer, cell, _STATIC[kind]] = 1
            if kind == COUNTER:
                for item, layer, value in ((0, _STATIC[COUNTER], 1), *_OF_ITEM):
                    shift = 2 * (number % 4)
                    show((observer, cell, layer), 4 + number // 4, 3 << shift, item << shift, value)
            if kind == POT:
                pot = first_pot + number
                show((observer, cell, _POT_ONIONS), pot, _COOKS, _COOKS, 0)
                show((observer, cell, _TIME), pot, _COOKS, 0, 0)
                show((observer, cell, _SOUP_ONIONS), pot, _COOKS, _COOKS, 3)
                show((observer, cell, _READY), pot, _IS_READY, _IS_READY, 1)
                bits[observer, cell, [_POT_ONIONS, _TIME]] = _VALUE
    return tuple(table.reshape(1, -1) for table in tables)


def num_words(kitchen: Layout) -> int:
    """Returns the number of words that hold what is on the counters, two bits each."""
    return -(-len(kitchen.where(COUNTER)) // 16)
