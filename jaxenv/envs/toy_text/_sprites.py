"""Draws the cells of the grids of this family in the unit square."""

from typing import Any

from jaxenv.canvas import BLACK, BLUE, GOLD, GREEN, GREY, INK, NIGHT, ORANGE, PINK, RED, SILVER, SKY, WHITE, Canvas, mix
from jaxenv.envs._drawing import flag, floor, person

_WATER = mix(BLUE, NIGHT, 0.45)


def ice(canvas: Canvas) -> Canvas:
    return floor(canvas, SKY)


def slippery_ice(canvas: Canvas) -> Canvas:
    """Paints ice that shines."""
    canvas = ice(canvas).line(0.2, 0.6, 0.4, 0.8, 0.05, WHITE)
    return canvas.line(0.56, 0.18, 0.8, 0.42, 0.05, WHITE).line(0.72, 0.18, 0.8, 0.26, 0.05, WHITE)


def hole(canvas: Canvas) -> Canvas:
    canvas = canvas.ellipse(0.5, 0.47, 0.8, 0.68, mix(SKY, BLUE, 0.45))
    return canvas.ellipse(0.5, 0.44, 0.74, 0.56, _WATER)


def start(canvas: Canvas) -> Canvas:
    return canvas.ring(0.5, 0.5, 0.3, 0.1, GREY)


def walker(canvas: Canvas) -> Canvas:
    return person(canvas, ORANGE)


def sunk(canvas: Canvas) -> Canvas:
    """Paints a walker in a hole."""
    for border, paint in ((0.05, INK), (0.0, ORANGE)):
        canvas = canvas.box(0.5, 0.44, 0.56 + 2 * border, 0.24 + 2 * border, paint, corner=0.12)
        canvas = canvas.disc(0.5, 0.68, 0.18 + border, paint)
    return canvas.ellipse(0.5, 0.31, 0.68, 0.22, _WATER)


def road(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 1, 1, mix(NIGHT, WHITE, 0.14)).disc(0.5, 0.5, 0.04, mix(NIGHT, WHITE, 0.4))


def wet_road(canvas: Canvas) -> Canvas:
    """Paints a road in the rain."""
    canvas = road(canvas)
    for x, y in ((0.2, 0.85), (0.7, 0.9), (0.45, 0.5), (0.9, 0.45), (0.15, 0.25), (0.65, 0.2)):
        canvas = canvas.line(x, y, x - 0.06, y - 0.14, 0.03, mix(SKY, NIGHT, 0.35))
    return canvas


def wall_to_east(canvas: Canvas) -> Canvas:
    return canvas.box(1, 0.5, 0.16, 1, SILVER)


def wall_to_west(canvas: Canvas) -> Canvas:
    return canvas.box(0, 0.5, 0.16, 1, SILVER)


def stops() -> list[Any]:
    """Returns painters of the four stops: red, green, yellow and blue."""
    return [lambda canvas, c=c: canvas.box(0.5, 0.5, 0.84, 0.84, c, corner=0.12) for c in (RED, GREEN, GOLD, BLUE)]


def destination(canvas: Canvas) -> Canvas:
    corners = [(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9)]
    return flag(canvas.path(corners, 0.08, WHITE, closed=True), WHITE, INK)


def doubtful_destination(canvas: Canvas) -> Canvas:
    """Paints a destination that the passenger will change."""
    return destination(canvas).text("?", 0.66, 0.14, 0.26, WHITE)


def passenger(canvas: Canvas) -> Canvas:
    return person(canvas, PINK)


def taxi(canvas: Canvas) -> Canvas:
    """Paints an empty taxi."""
    for border, paint in ((0.04, INK), (0.0, GOLD)):
        canvas = canvas.polygon([(0.2, 0.42), (0.32, 0.74), (0.68, 0.74), (0.8, 0.42)], paint, corner=0.04 + border)
        canvas = canvas.box(0.5, 0.38, 0.88 + 2 * border, 0.28 + 2 * border, paint, corner=0.1)
    canvas = canvas.polygon([(0.28, 0.5), (0.36, 0.7), (0.64, 0.7), (0.72, 0.5)], SKY)
    for x in (0.27, 0.73):
        canvas = canvas.disc(x, 0.24, 0.13, BLACK).disc(x, 0.24, 0.05, SILVER)
    return canvas


def occupied_taxi(canvas: Canvas) -> Canvas:
    """Paints a taxi with the passenger in its window."""
    return taxi(canvas).disc(0.5, 0.6, 0.1, PINK).box(0.5, 0.49, 0.26, 0.06, PINK)
