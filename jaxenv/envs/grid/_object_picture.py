"""Draws a grid with objects of six colours: the whole grid, lighter where the agent sees it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLUE, GOLD, GREEN, GREY, INK, NIGHT, PURPLE, RED, Canvas, mix
from jaxenv.envs import _drawing
from jaxenv.envs._drawing import floor, goal
from jaxenv.envs.grid import _picture

_COLOURS = (RED, GREEN, BLUE, PURPLE, GOLD, GREY)  # in the order of MiniGrid's codes


def draw(state: Any, seen: jax.Array, canvas: Canvas) -> Canvas:
    """Paints the rows and columns of ``seen``, bool ``[B, R, C]``: the cells that the agent sees in a state."""
    rows, columns = (np.arange(n, dtype=np.int32) for n in seen.shape[1:])
    index = columns[None, None, :] + 32 * rows[None, :, None]
    bit = columns.astype(np.uint32)[None, None, :]
    is_floor = (state.floor.rows[:, : len(rows), None] >> bit) & np.uint32(1) != 0

    kinds = jnp.where(is_floor, np.int32(1), np.int32(2))
    carried = jnp.zeros_like(state.agent.x)
    for i in range(state.objects.cell.shape[1]):
        cell, painter = state.objects.cell[:, i], _painter(state.objects.code[:, i])
        kinds = jnp.where(index == cell[:, None, None], painter[:, None, None], kinds)
        carried = jnp.where(cell == -1, painter, carried)
    here = index == (state.agent.x + 32 * state.agent.y)[:, None, None]
    agents = jnp.where(here, 1 + state.agent.direction[:, None, None], 0)

    canvas = canvas.fill(NIGHT).tiles(kinds, _CELLS).tiles(seen.astype(jnp.int32), [None, _drawing.sight])
    canvas = canvas.tiles(agents, [None, *(_picture.agent(direction) for direction in range(4))])
    return canvas.tiles(jnp.where(here & (carried > 0)[:, None, None], carried[:, None, None] - _KEYS + 1, 0), _CARRIED)


def _painter(code: jax.Array) -> jax.Array:
    """Returns the index of an object's painter in ``_CELLS``, int32 ``[B]``, given its code, uint32 ``[B]``."""
    kind, colour, state = ((code >> np.uint32(i) & np.uint32(255)).astype(jnp.int32) for i in (0, 8, 16))
    movable = _KEYS + 6 * (kind - 5) + colour
    return jnp.where(kind == 4, _DOORS + 6 * state + colour, jnp.where(kind == 8, _GOAL, movable))


def _ball(canvas: Canvas, colour: np.ndarray, size: float = 1.0) -> Canvas:
    return canvas.disc(0.5, 0.5, 0.34 * size, mix(colour, INK, 0.4)).disc(0.5, 0.5, 0.28 * size, colour)


def _box(canvas: Canvas, colour: np.ndarray, size: float = 1.0) -> Canvas:
    canvas = canvas.box(0.5, 0.5, 0.7 * size, 0.7 * size, mix(colour, INK, 0.4), corner=0.06 * size)
    canvas = canvas.box(0.5, 0.5, 0.56 * size, 0.56 * size, colour, corner=0.03 * size)
    return canvas.box(0.5, 0.5, 0.7 * size, 0.1 * size, mix(colour, INK, 0.6))


def _in_all_colours(
    paint: Callable[..., Any], on_floor: bool = False, **options: Any
) -> list[Callable[[Canvas], Canvas]]:
    def painter(colour: np.ndarray) -> Callable[[Canvas], Canvas]:
        return lambda canvas: paint(floor(canvas) if on_floor else canvas, colour, **options)

    return [painter(colour) for colour in _COLOURS]


_GOAL, _DOORS = 3, 4
_KEYS = _DOORS + 3 * len(_COLOURS)
_CELLS = (
    None,
    floor,
    _drawing.wall,
    goal,
    # Doors are in the order of their states, objects that can be carried in the order of their codes.
    *(
        painter
        for door in (_picture.open_door, _picture.closed_door, _picture.locked_door)
        for painter in _in_all_colours(door)
    ),
    *(painter for thing in (_picture.key, _ball, _box) for painter in _in_all_colours(thing, on_floor=True)),
)
_CARRIED = (
    None,
    *(painter for thing in (_picture.key, _ball, _box) for painter in _in_all_colours(partial(thing, size=0.5))),
)
