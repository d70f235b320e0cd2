"""Draws grid worlds: the whole grid, lighter where the agent sees it."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLACK, BLUE, BROWN, GOLD, GREEN, GREY, INK, NIGHT, ORANGE, PURPLE, RED, Canvas, mix, turn
from jaxenv.envs import _drawing
from jaxenv.envs._drawing import floor, goal
from jaxenv.envs.grid._cell_set import plane_of


def draw(state: Any, size: jax.Array, seen: jax.Array, canvas: Canvas) -> Canvas:
    """Paints the grids of a `grid_world.State`.

    Cells beyond ``size``, int32 ``[B]``, are left free. The agent sees ``seen``, bool ``[B, N, N]``, rows first.
    """
    number = np.arange(seen.shape[-1], dtype=np.int32)
    x, y = number[None, None, :], number[None, :, None]

    def at(cell: jax.Array) -> jax.Array:
        return x + 32 * y == cell[:, None, None]

    inside = jnp.maximum(x, y) < size[:, None, None]
    kinds = jnp.where(plane_of(state.floor.rows, len(number)), np.int32(1), np.int32(2))
    kinds = jnp.where(at(state.goal), np.int32(3), kinds)
    if state.lava is not None:
        kinds = jnp.where(plane_of(state.lava.rows, len(number)), np.int32(4), kinds)
    # Facing right, down, left and up, then the same with the key.
    looks = state.agent.direction
    if state.lock is not None:
        kinds = jnp.where(at(state.lock.key), np.int32(5), kinds)
        kinds = jnp.where(at(state.lock.door), 6 + state.lock.door_state[:, None, None], kinds)
        looks = jnp.where(state.lock.key < 0, looks + 4, looks)
    agents = jnp.where(at(state.agent.x + 32 * state.agent.y), 1 + looks[:, None, None], 0)

    return paint(canvas, jnp.where(inside, kinds, 0), _CELLS, seen & inside, agents, looks=8)


def draw_objects(state: Any, seen: jax.Array, canvas: Canvas) -> Canvas:
    """Paints the grids of an `object_world.State`. The agent sees ``seen``, bool ``[B, rows, columns]``."""
    rows, columns = seen.shape[1:]
    index = np.arange(columns, dtype=np.int32)[None, None, :] + 32 * np.arange(rows, dtype=np.int32)[None, :, None]
    kinds = jnp.where(plane_of(state.floor.rows[:, :rows], columns), np.int32(1), np.int32(2))
    carried = jnp.zeros_like(state.agent.x)
    for i in range(state.objects.cell.shape[1]):
        cell, painter = state.objects.cell[:, i], _painter(state.objects.code[:, i])
        kinds = jnp.where(index == cell[:, None, None], painter[:, None, None], kinds)
        carried = jnp.where(cell == -1, painter, carried)
    here = index == (state.agent.x + 32 * state.agent.y)[:, None, None]
    agents = jnp.where(here, 1 + state.agent.direction[:, None, None], 0)
    canvas = paint(canvas, kinds, _OBJECTS, seen, agents)
    return canvas.tiles(jnp.where(here & (carried > 0)[:, None, None], carried[:, None, None] - _KEYS + 1, 0), _CARRIED)


def paint(
    canvas: Canvas, kinds: jax.Array, cells: Sequence[Any], seen: jax.Array, agents: jax.Array, looks: int = 4
) -> Canvas:
    """Paints kinds of ``cells``, lighter where they are ``seen``, and agents, each 1 + one of the ``looks``, or 0."""
    canvas = canvas.fill(NIGHT).tiles(kinds, cells).tiles(seen.astype(jnp.int32), [None, _drawing.sight])
    return canvas.tiles(agents, [None, *_AGENTS[:looks]])


def _painter(code: jax.Array) -> jax.Array:
    """Returns the index of an object's painter in ``_OBJECTS``, int32 ``[B]``, given its code, uint32 ``[B]``."""
    kind, colour, state = ((code >> np.uint32(i) & np.uint32(255)).astype(jnp.int32) for i in (0, 8, 16))
    movable = _KEYS + 6 * (kind - 5) + colour
    return jnp.where(kind == 4, _DOORS + 6 * state + colour, jnp.where(kind == 8, _GOAL, movable))


def _lava(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(ORANGE)
    for height in (0.25, 0.55, 0.85):
        wave = [(i / 4, height + (0.07 if i % 2 else -0.07)) for i in range(5)]
        canvas = canvas.path(wave, 0.09, mix(ORANGE, RED, 0.8))
    return canvas


def _key(canvas: Canvas, colour: np.ndarray = GOLD, x: float = 0.5, y: float = 0.5, size: float = 1.0) -> Canvas:
    canvas = canvas.ring(x, y + 0.2 * size, 0.15 * size, 0.1 * size, colour)
    canvas = canvas.line(x, y + 0.05 * size, x, y - 0.35 * size, 0.1 * size, colour)
    for tooth in (0.18, 0.33):
        canvas = canvas.line(x, y - tooth * size, x + 0.16 * size, y - tooth * size, 0.09 * size, colour)
    return canvas


def _open_door(canvas: Canvas, colour: np.ndarray = GOLD) -> Canvas:
    """Paints a frame and a door folded back to its side."""
    canvas = floor(canvas)
    for y in (0.05, 0.95):
        canvas = canvas.box(0.5, y, 1, 0.1, _dark(colour))
    return canvas.box(0.5, 0.84, 0.9, 0.18, colour, corner=0.03)


def _closed_door(canvas: Canvas, colour: np.ndarray = GOLD) -> Canvas:
    canvas = canvas.fill(_dark(colour)).box(0.5, 0.5, 0.84, 0.84, colour, corner=0.05)
    canvas = canvas.box(0.5, 0.5, 0.66, 0.66, mix(colour, BROWN, 0.5), corner=0.04)
    return canvas.disc(0.7, 0.5, 0.08, INK)


def _locked_door(canvas: Canvas, colour: np.ndarray = GOLD) -> Canvas:
    """Paints a door with a keyhole."""
    canvas = canvas.fill(_dark(colour)).box(0.5, 0.5, 0.84, 0.84, colour, corner=0.05)
    canvas = canvas.disc(0.5, 0.58, 0.14, BLACK)
    return canvas.polygon([(0.46, 0.56), (0.54, 0.56), (0.6, 0.26), (0.4, 0.26)], BLACK)


def _dark(colour: np.ndarray) -> np.ndarray:
    return mix(colour, INK, 0.55)


def _ball(canvas: Canvas, colour: np.ndarray, size: float = 1.0) -> Canvas:
    return canvas.disc(0.5, 0.5, 0.34 * size, mix(colour, INK, 0.4)).disc(0.5, 0.5, 0.28 * size, colour)


def _box(canvas: Canvas, colour: np.ndarray, size: float = 1.0) -> Canvas:
    canvas = canvas.box(0.5, 0.5, 0.7 * size, 0.7 * size, mix(colour, INK, 0.4), corner=0.06 * size)
    canvas = canvas.box(0.5, 0.5, 0.56 * size, 0.56 * size, colour, corner=0.03 * size)
    return canvas.box(0.5, 0.5, 0.7 * size, 0.1 * size, mix(colour, INK, 0.6))


def _agent(canvas: Canvas, direction: int, with_key: bool) -> Canvas:
    angle = -direction * math.pi / 2
    corners = [turn(x, y, angle) for x, y in ((0.3, 0.0), (-0.28, 0.3), (-0.28, -0.3))]
    corners = [(0.5 + x, 0.5 + y) for x, y in corners]
    canvas = canvas.polygon(corners, mix(RED, INK, 0.5), corner=0.11).polygon(corners, RED, corner=0.05)
    x, y = turn(-0.08, 0.0, angle)
    return _key(canvas, GOLD, 0.5 + x, 0.5 + y, 0.6) if with_key else canvas


def _on_floor(canvas: Canvas, thing: Callable[..., Canvas], colour: np.ndarray) -> Canvas:
    return thing(floor(canvas), colour)


# Doors are in the order of their states, things that can be carried and colours in the order of MiniGrid's codes.
_STATES, _THINGS = (_open_door, _closed_door, _locked_door), (_key, _ball, _box)
_COLOURS = (RED, GREEN, BLUE, PURPLE, GOLD, GREY)
_GOAL, _DOORS, _KEYS = 3, 4, 4 + len(_STATES) * len(_COLOURS)
_CELLS = (None, floor, _drawing.wall, goal, _lava, partial(_on_floor, thing=_key, colour=GOLD), *_STATES)
_OBJECTS = (
    *_CELLS[:_DOORS],
    *(partial(door, colour=colour) for door in _STATES for colour in _COLOURS),
    *(partial(_on_floor, thing=thing, colour=colour) for thing in _THINGS for colour in _COLOURS),
)
_CARRIED = (None, *(partial(thing, colour=colour, size=0.5) for thing in _THINGS for colour in _COLOURS))
_AGENTS = [partial(_agent, direction=i % 4, with_key=i >= 4) for i in range(8)]
