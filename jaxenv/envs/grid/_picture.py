"""The picture of a grid world: the whole grid, lighter where the agent sees it."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLACK, BROWN, GOLD, INK, NIGHT, ORANGE, RED, Canvas, mix, turn
from jaxenv.envs import _maze_tiles
from jaxenv.envs._drawing import floor, goal

_DARK = mix(GOLD, INK, 0.55)


def draw(state: Any, size: jax.Array, seen: jax.Array, canvas: Canvas) -> Canvas:
    """Paints the grids.

    Args:
        state: a `grid_world.State`.
        size: the number of cells along each side, int32 ``[B]``; what lies beyond is left free.
        seen: the cells that the agent sees, bool ``[B, N, N]``, rows first.
        canvas: what is painted on.
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
    agent = jnp.where(at(state.agent.x + 32 * state.agent.y), 1 + looks[:, None, None], 0)

    canvas = canvas.fill(NIGHT).tiles(jnp.where(inside, kinds, 0), _CELLS)
    canvas = canvas.tiles((seen & inside).astype(jnp.int32), [None, _maze_tiles.sight])
    return canvas.tiles(agent, [None, *_AGENTS])


def _lava(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(ORANGE)
    for height in (0.25, 0.55, 0.85):
        wave = [(i / 4, height + (0.07 if i % 2 else -0.07)) for i in range(5)]
        canvas = canvas.path(wave, 0.09, mix(ORANGE, RED, 0.8))
    return canvas


def _key(canvas: Canvas, x: float = 0.5, y: float = 0.5, size: float = 1.0) -> Canvas:
    canvas = canvas.ring(x, y + 0.2 * size, 0.15 * size, 0.1 * size, GOLD)
    canvas = canvas.line(x, y + 0.05 * size, x, y - 0.35 * size, 0.1 * size, GOLD)
    for tooth in (0.18, 0.33):
        canvas = canvas.line(x, y - tooth * size, x + 0.16 * size, y - tooth * size, 0.09 * size, GOLD)
    return canvas


def _key_on_floor(canvas: Canvas) -> Canvas:
    return _key(floor(canvas))


def _open_door(canvas: Canvas) -> Canvas:
    """A frame, and the door folded back to its side."""
    canvas = floor(canvas)
    for y in (0.05, 0.95):
        canvas = canvas.box(0.5, y, 1, 0.1, _DARK)
    return canvas.box(0.5, 0.84, 0.9, 0.18, GOLD, corner=0.03)


def _closed_door(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(_DARK).box(0.5, 0.5, 0.84, 0.84, GOLD, corner=0.05)
    canvas = canvas.box(0.5, 0.5, 0.66, 0.66, mix(GOLD, BROWN, 0.5), corner=0.04)
    return canvas.disc(0.7, 0.5, 0.08, INK)


def _locked_door(canvas: Canvas) -> Canvas:
    """A door with a keyhole."""
    canvas = canvas.fill(_DARK).box(0.5, 0.5, 0.84, 0.84, GOLD, corner=0.05)
    canvas = canvas.disc(0.5, 0.58, 0.14, BLACK)
    return canvas.polygon([(0.46, 0.56), (0.54, 0.56), (0.6, 0.26), (0.4, 0.26)], BLACK)


def _agent(direction: int, key: bool):
    def paint(canvas: Canvas) -> Canvas:
        angle = -direction * math.pi / 2
        corners = [turn(x, y, angle) for x, y in ((0.3, 0.0), (-0.28, 0.3), (-0.28, -0.3))]
        corners = [(0.5 + x, 0.5 + y) for x, y in corners]
        canvas = canvas.polygon(corners, mix(RED, INK, 0.5), corner=0.11).polygon(corners, RED, corner=0.05)
        if not key:
            return canvas
        x, y = turn(-0.08, 0.0, angle)
        return _key(canvas, 0.5 + x, 0.5 + y, 0.6)

    return paint


# The doors stand in the order of their states: open, closed, locked.
_CELLS = (
    None,
    floor,
    _maze_tiles.wall,
    goal,
    _lava,
    _key_on_floor,
    _open_door,
    _closed_door,
    _locked_door,
)
_AGENTS = tuple(_agent(direction, key) for key in (False, True) for direction in range(4))
