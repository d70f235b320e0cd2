"""Draws cells of mazes and rooms in the unit square, for several families of environments."""

from jaxenv.canvas import GREEN, GREY, INK, NIGHT, RED, SKY, Canvas, mix
from jaxenv.envs._drawing import floor


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
