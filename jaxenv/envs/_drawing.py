"""Draws what several families of environments show: floors, persons, flags, timelines, and cells of mazes."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import GREEN, GREY, INK, NIGHT, RED, SILVER, SKY, WHITE, Canvas, mix

FLOOR = mix(NIGHT, WHITE, 0.07)


def place(index: jax.Array, shape: tuple[int, int], kind: jax.Array | int = 1) -> jax.Array:
    """Returns kinds of cells for `Canvas.tiles`, int32 ``[B, *shape]``: ``kind`` in the cell ``index``, else 0."""
    cells = np.arange(shape[0] * shape[1], dtype=np.int32)[None]
    kinds = jnp.asarray(kind, jnp.int32).reshape(-1, 1)
    return jnp.where(cells == index[:, None], kinds, np.int32(0)).reshape(-1, *shape)


def floor(canvas: Canvas, colour: np.ndarray = FLOOR) -> Canvas:
    """Paints a cell that the agent can enter."""
    return canvas.box(0.5, 0.5, 0.94, 0.94, colour, corner=0.1)


def person(canvas: Canvas, colour: np.ndarray, x: float = 0.5, y: float = 0.5, size: float = 1.0) -> Canvas:
    """Paints a person with a contour around ``(x, y)``, scaled by ``size``."""
    for border, paint in ((0.05 * size, INK), (0.0, colour)):
        width, height = 0.6 * size + 2 * border, 0.4 * size + 2 * border
        canvas = canvas.box(x, y - 0.2 * size, width, height, paint, corner=0.18 * size)
        canvas = canvas.disc(x, y + 0.2 * size, 0.19 * size + border, paint)
    return canvas


def flag(canvas: Canvas, colour: np.ndarray, pole: np.ndarray) -> Canvas:
    """Paints a flag in the unit square."""
    canvas = canvas.polygon([(0.36, 0.84), (0.82, 0.67), (0.36, 0.5)], colour, corner=0.02)
    return canvas.line(0.34, 0.16, 0.34, 0.84, 0.09, pole)


def goal(canvas: Canvas) -> Canvas:
    """Paints a green cell with a flag."""
    return flag(floor(canvas, GREEN), WHITE, INK)


def timeline(canvas: Canvas, x: float, to_x: float, y: float, fraction: jax.Array) -> Canvas:
    """Paints a bar from ``x`` to ``to_x`` and fills ``fraction`` of it."""
    width = 0.05 * (to_x - x)
    canvas = canvas.line(x, y, to_x, y, width, SILVER)
    return canvas.line(x, y, x + (to_x - x) * jnp.clip(fraction, 0, 1), y, width, GREY)


def wall(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(mix(GREY, INK, 0.6))
    return canvas.box(0.5, 0.54, 0.94, 0.86, mix(GREY, INK, 0.35), corner=0.08)


def hidden_goal(canvas: Canvas) -> Canvas:
    """Paints a goal that the agent does not see."""
    canvas = floor(canvas).box(0.5, 0.5, 0.9, 0.9, GREEN, corner=0.2)
    return canvas.box(0.5, 0.5, 0.66, 0.66, mix(NIGHT, GREEN, 0.2), corner=0.12)


def sight(canvas: Canvas) -> Canvas:
    """Lightens a cell that the agent sees."""
    return canvas.box(0.5, 0.5, 1, 1, SKY, alpha=0.15)


def walker(canvas: Canvas) -> Canvas:
    """Paints an agent that has no direction."""
    return canvas.disc(0.5, 0.5, 0.36, mix(RED, INK, 0.5)).disc(0.5, 0.5, 0.3, RED)
