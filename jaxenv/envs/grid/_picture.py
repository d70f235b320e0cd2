"""Draws a grid world: the whole grid, lighter where the agent sees it."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLACK, BROWN, GOLD, INK, NIGHT, ORANGE, RED, Canvas, mix, turn
from jaxenv.envs import _drawing
from jaxenv.envs._drawing import floor, goal


def draw(state: Any, size: jax.Array, seen: jax.Array, canvas: Canvas) -> Canvas:
    """Paints the grids of a `grid_world.State`.

    Cells beyond ``size``, int32 ``[B]``, are left free. The agent sees ``seen``, bool ``[B, N, N]``, rows first.
    """
    number = np.arange(seen.shape[-1], dtype=np.int32)
    x, y = number[None, None, :], number[None, :, None]
    index = x + 32 * y

    def at(cell: jax.Array) -> jax.Array:
        return index == cell[:, None, None]

    def holds(rows: jax.Array) -> jax.Array:
        return (rows[:, :, None] >> number.astype(np.uint32)[None, None]) & np.uint32(1) != 0

    inside = jnp.maximum(x, y) < size[:, None, None]
    kinds = jnp.where(holds(state.floor.rows), np.int32(1), np.int32(2))
    kinds = jnp.where(at(state.goal), np.int32(3), kinds)
    if state.lava is not None:
        kinds = jnp.where(holds(state.lava.rows), np.int32(4), kinds)
    # Facing right, down, left and up, then the same with the key.
    looks = state.agent.direction
    if state.lock is not None:
        kinds = jnp.where(at(state.lock.key), np.int32(5), kinds)
        kinds = jnp.where(at(state.lock.door), 6 + state.lock.door_state[:, None, None], kinds)
        looks = jnp.where(state.lock.key < 0, looks + 4, looks)
    agents = jnp.where(at(state.agent.x + 32 * state.agent.y), 1 + looks[:, None, None], 0)

    canvas = canvas.fill(NIGHT).tiles(jnp.where(inside, kinds, 0), _CELLS)
    canvas = canvas.tiles((seen & inside).astype(jnp.int32), [None, _drawing.sight])
    return canvas.tiles(agents, [None, *_AGENTS])


def _lava(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(ORANGE)
    for height in (0.25, 0.55, 0.85):
        wave = [(i / 4, height + (0.07 if i % 2 else -0.07)) for i in range(5)]
        canvas = canvas.path(wave, 0.09, mix(ORANGE, RED, 0.8))
    return canvas


def key(canvas: Canvas, colour: np.ndarray = GOLD, x: float = 0.5, y: float = 0.5, size: float = 1.0) -> Canvas:
    canvas = canvas.ring(x, y + 0.2 * size, 0.15 * size, 0.1 * size, colour)
    canvas = canvas.line(x, y + 0.05 * size, x, y - 0.35 * size, 0.1 * size, colour)
    for tooth in (0.18, 0.33):
        canvas = canvas.line(x, y - tooth * size, x + 0.16 * size, y - tooth * size, 0.09 * size, colour)
    return canvas


def open_door(canvas: Canvas, colour: np.ndarray = GOLD) -> Canvas:
    """Paints a frame and a door folded back to its side."""
    canvas = floor(canvas)
    for y in (0.05, 0.95):
        canvas = canvas.box(0.5, y, 1, 0.1, _dark(colour))
    return canvas.box(0.5, 0.84, 0.9, 0.18, colour, corner=0.03)


def closed_door(canvas: Canvas, colour: np.ndarray = GOLD) -> Canvas:
    canvas = canvas.fill(_dark(colour)).box(0.5, 0.5, 0.84, 0.84, colour, corner=0.05)
    canvas = canvas.box(0.5, 0.5, 0.66, 0.66, mix(colour, BROWN, 0.5), corner=0.04)
    return canvas.disc(0.7, 0.5, 0.08, INK)


def locked_door(canvas: Canvas, colour: np.ndarray = GOLD) -> Canvas:
    """Paints a door with a keyhole."""
    canvas = canvas.fill(_dark(colour)).box(0.5, 0.5, 0.84, 0.84, colour, corner=0.05)
    canvas = canvas.disc(0.5, 0.58, 0.14, BLACK)
    return canvas.polygon([(0.46, 0.56), (0.54, 0.56), (0.6, 0.26), (0.4, 0.26)], BLACK)


def _dark(colour: np.ndarray) -> np.ndarray:
    return mix(colour, INK, 0.55)


def agent(direction: int, with_key: bool = False) -> Callable[..., Any]:
    def paint(canvas: Canvas) -> Canvas:
        angle = -direction * math.pi / 2
        corners = [turn(x, y, angle) for x, y in ((0.3, 0.0), (-0.28, 0.3), (-0.28, -0.3))]
        corners = [(0.5 + x, 0.5 + y) for x, y in corners]
        canvas = canvas.polygon(corners, mix(RED, INK, 0.5), corner=0.11).polygon(corners, RED, corner=0.05)
        if not with_key:
            return canvas
        x, y = turn(-0.08, 0.0, angle)
        return key(canvas, GOLD, 0.5 + x, 0.5 + y, 0.6)

    return paint


# Doors are in the order of their states: open, closed, locked.
_CELLS = (None, floor, _drawing.wall, goal, _lava, lambda c: key(floor(c)), open_door, closed_door, locked_door)
_AGENTS = tuple(agent(direction, with_key) for with_key in (False, True) for direction in range(4))
