"""Draws the deep sea: a basin whose treasure lies in the rock to the right of the last cell."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLUE, BROWN, GOLD, INK, NIGHT, ORANGE, SAND, SKY, WHITE, Canvas, mix
from jaxenv.envs._drawing import place

_TINTS = 8  # of the water
_MIN_SIDE = 16  # pixels of a cell with a legible digit


def draw(canvas: Canvas, row: jax.Array, column: jax.Array, rightward: np.ndarray) -> Canvas:
    """Paints the sea and the diver, who ends on the ground, below the last row. Row and column are int32 ``[B]``.

    Each cell shows the action that goes right in it, int32 ``[N, N]``.
    """
    size = len(rightward)
    grid = (size + 1, size + 1)
    depth = np.arange(size) * _TINTS // size
    kinds = np.full((1, *grid), 4 * _TINTS, np.int32)
    kinds[0, :size, :size] = 4 * depth[:, None] + 2 * np.eye(size, dtype=np.int32) + rightward
    kinds[0, :, size] += 1
    kinds[0, size - 1, size] += 1
    water = [
        functools.partial(_water, tint=tint / (_TINTS - 1), diagonal=diagonal, digit=digit)
        for tint in range(_TINTS)
        for diagonal in (False, True)
        for digit in "01"
    ]
    canvas = canvas.fill(NIGHT).tiles(jnp.asarray(kinds), [*water, _ground, _rock, _treasure])
    return canvas.tiles(place(row * np.int32(size + 1) + column, grid), [None, _diver])


def _water(canvas: Canvas, tint: float, diagonal: bool, digit: str) -> Canvas:
    colour = mix(mix(SKY, BLUE, 0.55), mix(BLUE, NIGHT, 0.65), tint)
    canvas = canvas.fill(colour)
    if diagonal:
        canvas = canvas.box(0.5, 0.5, 0.9, 0.9, mix(colour, WHITE, 0.25), corner=0.1)
    if canvas.scale < _MIN_SIDE:
        return canvas
    light = mix(colour, WHITE, 0.55)
    canvas = canvas.text(digit, 0.52, 0.12, 0.3, light, align=1)
    canvas = canvas.line(0.64, 0.27, 0.88, 0.27, 0.06, light)
    return canvas.path([(0.78, 0.17), (0.88, 0.27), (0.78, 0.37)], 0.06, light)


def _ground(canvas: Canvas) -> Canvas:
    return canvas.fill(SAND)


def _rock(canvas: Canvas) -> Canvas:
    return canvas.fill(BROWN)


def _treasure(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(mix(BLUE, NIGHT, 0.65))
    canvas = canvas.box(0.5, 0.42, 0.84, 0.64, GOLD, corner=0.16).box(0.5, 0.5, 0.84, 0.1, INK)
    return canvas.box(0.5, 0.44, 0.16, 0.22, INK, corner=0.05)


def _diver(canvas: Canvas) -> Canvas:
    canvas = canvas.disc(0.5, 0.5, 0.42, INK).disc(0.5, 0.5, 0.36, ORANGE)
    return canvas.disc(0.5, 0.54, 0.23, INK).disc(0.5, 0.54, 0.17, SKY)
