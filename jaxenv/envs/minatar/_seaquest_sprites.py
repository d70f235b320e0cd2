"""Sprites of Seaquest. Each is a function that paints one cell, as in `_sprites`."""

from functools import partial

import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLUE, GOLD, INK, NIGHT, ORANGE, PINK, PURPLE, RED, SAND, SILVER, SKY, WHITE, Canvas, mix
from jaxenv.envs.minatar._sprites import behind, both_ways, eye


def _submarine(canvas: Canvas) -> Canvas:
    """Paints the front of the player's submarine, which is two cells long."""
    canvas = canvas.box(-0.05, 0.74, 0.44, 0.36, mix(GOLD, INK, 0.2), corner=0.08)
    canvas = canvas.path([(0.05, 0.86), (0.05, 0.96), (0.18, 0.96)], 0.07, mix(GOLD, INK, 0.2))
    canvas = canvas.box(-0.9, 0.4, 0.07, 0.46, SILVER, corner=0.03)
    canvas = canvas.box(0.04, 0.4, 1.76, 0.54, GOLD, corner=0.27)
    for x in (-0.42, 0.04, 0.5):
        canvas = canvas.disc(x, 0.42, 0.13, INK).disc(x, 0.42, 0.09, SKY)
    return canvas


def _foe(canvas: Canvas) -> Canvas:
    """Paints an enemy submarine."""
    dark = mix(PURPLE, WHITE, 0.25)
    canvas = canvas.box(0.46, 0.66, 0.26, 0.34, dark, corner=0.06).box(0.07, 0.4, 0.07, 0.44, SILVER, corner=0.03)
    canvas = canvas.box(0.53, 0.4, 0.86, 0.46, PURPLE, corner=0.22)
    return canvas.disc(0.7, 0.43, 0.1, RED).disc(0.4, 0.43, 0.07, dark)


def _fish(canvas: Canvas) -> Canvas:
    canvas = canvas.polygon([(0.3, 0.5), (0.07, 0.78), (0.12, 0.5), (0.07, 0.22)], ORANGE, corner=0.03)
    canvas = canvas.polygon([(0.4, 0.68), (0.62, 0.72), (0.44, 0.84)], ORANGE, corner=0.03)
    canvas = canvas.ellipse(0.57, 0.5, 0.76, 0.5, ORANGE)
    canvas = canvas.polygon([(0.56, 0.48), (0.38, 0.54), (0.4, 0.34)], mix(ORANGE, RED, 0.6), corner=0.03)
    return eye(canvas, 0.76, 0.56, 0.09)


def _diver(canvas: Canvas) -> Canvas:
    canvas = canvas.line(0.36, 0.44, 0.1, 0.58, 0.1, PINK).line(0.36, 0.4, 0.12, 0.26, 0.1, PINK)
    canvas = canvas.line(0.34, 0.42, 0.6, 0.5, 0.22, PINK).line(0.56, 0.44, 0.78, 0.26, 0.09, PINK)
    canvas = canvas.box(0.42, 0.66, 0.3, 0.13, SILVER, angle=0.25, corner=0.06)
    canvas = canvas.disc(0.76, 0.58, 0.16, SAND)
    return canvas.box(0.84, 0.62, 0.15, 0.13, INK, corner=0.04)


def _passenger(canvas: Canvas) -> Canvas:
    """Paints a diver aboard."""
    canvas = canvas.disc(0.5, 0.5, 0.36, PINK).disc(0.5, 0.47, 0.24, SAND)
    return canvas.box(0.5, 0.52, 0.4, 0.18, INK, corner=0.09)


def _seat(canvas: Canvas) -> Canvas:
    """Paints a free seat for a diver."""
    return canvas.disc(0.5, 0.5, 0.36, INK)


def shot(canvas: Canvas) -> Canvas:
    return canvas.line(0.2, 0.42, 0.8, 0.42, 0.14, WHITE)


def _torpedo(canvas: Canvas) -> Canvas:
    canvas = canvas.box(0.17, 0.4, 0.12, 0.32, SILVER, corner=0.03)
    return canvas.line(0.22, 0.4, 0.78, 0.4, 0.18, RED)


def _bubbles(canvas: Canvas) -> Canvas:
    for x, y, radius in ((0.8, 0.42, 0.11), (0.5, 0.6, 0.08), (0.28, 0.48, 0.06)):
        canvas = canvas.disc(x, y, radius, SKY, alpha=0.4)
    return canvas


def _water(canvas: Canvas, depth: float) -> Canvas:
    """Paints water at a depth of 0 to 1."""
    return canvas.fill(mix(mix(NIGHT, BLUE, 0.55), mix(NIGHT, BLUE, 0.18), depth))


def _surface(canvas: Canvas) -> Canvas:
    """Waves under the sky."""
    return canvas.fill(SKY).below(lambda x: 0.3 + 0.07 * jnp.cos(2 * np.pi * x), mix(NIGHT, BLUE, 0.6))


PAIRS = both_ways(_submarine, behind(_submarine), _torpedo, _fish, _foe, _diver, _bubbles)
BACKDROP = (_surface, *(partial(_water, depth=row / 7) for row in range(8)), _seat, _passenger, None)
