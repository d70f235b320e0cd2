"""Sprites of the games: functions that paint one cell, x and y from 0 to 1. Sprites with a direction face right."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from jaxenv import tree
from jaxenv.canvas import BLACK, GOLD, GREEN, INK, NIGHT, ORANGE, RED, SAND, SILVER, SKY, TEAL, WHITE, Canvas, mix

Sprite: TypeAlias = Callable[[Canvas], Canvas]

# Kinds of cells for `Canvas.tiles`: 0 in the first and the last row of the board, 1 between them.
INNER_ROWS = np.pad(np.ones((1, 8, 10), np.int32), ((0, 0), (1, 1), (0, 0)))


def mirrored(sprite: Sprite) -> Sprite:
    """Returns the sprite facing left."""
    return lambda canvas: sprite(tree.rebuild(canvas, x=1 - canvas.x))


def both_ways(*sprites: Sprite) -> tuple[Sprite, ...]:
    """Returns each sprite twice, facing right and facing left."""
    return tuple(turned for sprite in sprites for turned in (sprite, mirrored(sprite)))


def behind(sprite: Sprite) -> Sprite:
    """Returns the part of a sprite that lies in the cell behind it."""
    return lambda canvas: sprite(tree.rebuild(canvas, x=canvas.x - 1))


def floor(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 0.92, 0.92, mix(NIGHT, WHITE, 0.05), corner=0.1)


def streaks(canvas: Canvas, colour: np.ndarray) -> Canvas:
    """Paints the faint trail of an object that moves to the right."""
    for y, tail in ((0.7, 0.5), (0.5, 0.2), (0.3, 0.5)):
        canvas = canvas.line(tail, y, 0.9, y, 0.07, colour, alpha=0.4)
    return canvas


def eye(canvas: Canvas, x: float, y: float, radius: float) -> Canvas:
    return canvas.disc(x, y, radius, WHITE).disc(x + 0.35 * radius, y, 0.6 * radius, BLACK)


# --- Breakout --------------------------------------------------------------------------------------------------------


def paddle(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.55, 0.98, 0.5, SKY, corner=0.2)


def ball(canvas: Canvas) -> Canvas:
    return canvas.disc(0.5, 0.5, 0.34, WHITE)


def ball_trail(canvas: Canvas) -> Canvas:
    return floor(canvas).disc(0.5, 0.5, 0.2, WHITE, alpha=0.3)


def brick(canvas: Canvas, colour: np.ndarray) -> Canvas:
    canvas = canvas.box(0.5, 0.5, 0.94, 0.8, mix(colour, BLACK, 0.25), corner=0.1)
    return canvas.box(0.5, 0.54, 0.94, 0.72, colour, corner=0.1)


# --- Asterix ---------------------------------------------------------------------------------------------------------


def hero(canvas: Canvas) -> Canvas:
    """Paints a Gaul with a winged helmet and a moustache."""
    for side in (-1, 1):
        tip, root = 0.5 + 0.42 * side, 0.5 + 0.2 * side
        canvas = canvas.polygon([(root, 0.58), (tip, 0.92), (tip, 0.62)], WHITE, corner=0.04)
    canvas = canvas.disc(0.5, 0.42, 0.31, SAND).box(0.5, 0.68, 0.58, 0.24, SILVER, corner=0.12)
    for side in (-1, 1):
        canvas = canvas.disc(0.5 + 0.11 * side, 0.46, 0.05, INK)
        canvas = canvas.line(0.5, 0.3, 0.5 + 0.26 * side, 0.22, 0.14, ORANGE)
    return canvas


def legionary(canvas: Canvas) -> Canvas:
    """Paints a helmet with a crest above a face that looks ahead."""
    canvas = canvas.path([(0.16, 0.5), (0.26, 0.78), (0.5, 0.88), (0.74, 0.78)], 0.16, GOLD)
    canvas = canvas.disc(0.5, 0.48, 0.33, RED).box(0.4, 0.26, 0.34, 0.3, RED, corner=0.08)
    return eye(canvas.box(0.72, 0.38, 0.3, 0.3, SAND, corner=0.08), 0.74, 0.42, 0.09)


def coin(canvas: Canvas) -> Canvas:
    canvas = canvas.disc(0.5, 0.5, 0.36, GOLD).ring(0.5, 0.5, 0.26, 0.05, mix(GOLD, INK, 0.35))
    return canvas.line(0.5, 0.38, 0.5, 0.62, 0.08, mix(GOLD, INK, 0.35))


# --- Freeway ---------------------------------------------------------------------------------------------------------


def chicken(canvas: Canvas) -> Canvas:
    canvas = canvas.path([(0.38, 0.3), (0.36, 0.07), (0.46, 0.07)], 0.06, ORANGE)
    canvas = canvas.path([(0.52, 0.3), (0.54, 0.07), (0.64, 0.07)], 0.06, ORANGE)
    canvas = canvas.polygon([(0.3, 0.36), (0.1, 0.68), (0.45, 0.6)], WHITE, corner=0.05)
    canvas = canvas.ellipse(0.45, 0.4, 0.62, 0.46, WHITE).box(0.62, 0.58, 0.24, 0.4, WHITE, corner=0.1)
    canvas = canvas.polygon([(0.74, 0.74), (0.92, 0.66), (0.74, 0.6)], ORANGE, corner=0.02)
    for x in (0.54, 0.64, 0.73):
        canvas = canvas.disc(x, 0.86, 0.07, RED)
    canvas = canvas.disc(0.63, 0.74, 0.14, WHITE).disc(0.67, 0.74, 0.045, BLACK)
    return canvas.path([(0.25, 0.44), (0.4, 0.34), (0.52, 0.42)], 0.06, SILVER)


def car(canvas: Canvas, colour: np.ndarray) -> Canvas:
    """Paints a car seen from above, with its lights in front."""
    for x in (0.27, 0.74):
        canvas = canvas.box(x, 0.5, 0.2, 0.66, BLACK, corner=0.05)
    canvas = canvas.box(0.5, 0.5, 0.9, 0.52, colour, corner=0.16)
    canvas = canvas.box(0.63, 0.5, 0.14, 0.4, INK, corner=0.05).box(0.22, 0.5, 0.09, 0.36, INK, corner=0.04)
    return _lights(canvas)


def truck(canvas: Canvas, colour: np.ndarray) -> Canvas:
    """Paints a truck seen from above: a load and a cab."""
    canvas = canvas.box(0.83, 0.5, 0.26, 0.54, mix(colour, WHITE, 0.4), corner=0.08)
    canvas = canvas.box(0.82, 0.5, 0.1, 0.42, INK, corner=0.04)
    return _lights(canvas.box(0.36, 0.5, 0.68, 0.68, colour, corner=0.06))


def _lights(canvas: Canvas) -> Canvas:
    return canvas.disc(0.93, 0.66, 0.06, GOLD).disc(0.93, 0.34, 0.06, GOLD)


def road(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(mix(NIGHT, WHITE, 0.08))
    return canvas.box(0.5, 1.0, 0.5, 0.06, mix(NIGHT, WHITE, 0.35))


def meadow(canvas: Canvas) -> Canvas:
    return canvas.fill(mix(NIGHT, GREEN, 0.55))


# --- Space Invaders --------------------------------------------------------------------------------------------------


def cannon(canvas: Canvas) -> Canvas:
    for y, width, height in ((0.24, 0.94, 0.34), (0.5, 0.46, 0.3), (0.74, 0.18, 0.42)):
        canvas = canvas.box(0.5, y, width, height, mix(TEAL, WHITE, 0.2), corner=0.07)
    return canvas


def alien(canvas: Canvas) -> Canvas:
    """Paints an alien that looks where it marches."""
    for side in (-1, 1):
        canvas = canvas.line(0.5 + 0.14 * side, 0.7, 0.5 + 0.26 * side, 0.9, 0.08, GREEN)
        canvas = canvas.line(0.5 + 0.22 * side, 0.34, 0.5 + 0.32 * side, 0.12, 0.1, GREEN)
        canvas = canvas.line(0.5 + 0.08 * side, 0.34, 0.5 + 0.12 * side, 0.12, 0.1, GREEN)
    canvas = canvas.ellipse(0.5, 0.52, 0.84, 0.5, GREEN)
    return eye(eye(canvas, 0.38, 0.55, 0.11), 0.68, 0.55, 0.11)


def bolt(canvas: Canvas) -> Canvas:
    return canvas.line(0.5, 0.28, 0.5, 0.72, 0.2, WHITE)


def bomb(canvas: Canvas) -> Canvas:
    return canvas.path([(0.5, 0.82), (0.36, 0.62), (0.62, 0.46), (0.5, 0.2)], 0.16, RED)
