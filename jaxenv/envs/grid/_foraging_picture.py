"""Draws a field from above: agents as discs, food as apples, all with their levels."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLUE, BROWN, GREEN, INK, ORANGE, PINK, PURPLE, RED, SAND, TEAL, WHITE, Canvas, Colour, mix

COLOURS = (BLUE, ORANGE, PURPLE, TEAL, PINK, INK)  # of the agents, in turn
_GRASS, _LINE = mix(GREEN, SAND, 0.75), mix(GREEN, SAND, 0.55)


def draw(state: Any, size: int, highest_agent: int, highest_food: int, canvas: Canvas) -> Canvas:
    """Paints states of `foraging.Foraging`. Of agents that share a cell it shows the last one."""
    painters: list[Callable[[Canvas], Canvas]] = [_grass]
    painters += [_apple(level) for level in range(1, highest_food + 1)]
    painters += [_agent(colour, level) for colour in COLOURS for level in range(1, highest_agent + 1)]
    firsts = [1] * len(state.foods.rows)
    firsts += [1 + highest_food + i % len(COLOURS) * highest_agent for i in range(len(state.agents.rows))]
    cells, kinds = np.arange(size * size, dtype=np.int32)[None], jnp.zeros((canvas.lanes, size * size), jnp.int32)
    for first, (row, column, level) in zip(firsts, (*state.foods.each(), *state.agents.each()), strict=True):
        here = (cells == (size * row + column)[:, None]) & (level > 0)[:, None]
        kinds = jnp.where(here, (first + level - 1)[:, None], kinds)
    return canvas.fill(_LINE).tiles(kinds.reshape(-1, size, size), painters)


def _grass(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 0.94, 0.94, _GRASS, corner=0.08)


def _apple(level: int) -> Callable[[Canvas], Canvas]:
    def paint(canvas: Canvas) -> Canvas:
        canvas = _grass(canvas).line(0.5, 0.7, 0.56, 0.9, 0.06, BROWN).ellipse(0.68, 0.84, 0.24, 0.12, GREEN, angle=0.5)
        for x in (0.38, 0.62):
            canvas = canvas.ellipse(x, 0.44, 0.46, 0.62, RED)
        return canvas.text(str(level), 0.5, 0.3, 0.3, WHITE, align=0.5)

    return paint


def _agent(colour: Colour, level: int) -> Callable[[Canvas], Canvas]:
    def paint(canvas: Canvas) -> Canvas:
        canvas = _grass(canvas).disc(0.5, 0.5, 0.42, mix(colour, INK, 0.4)).disc(0.5, 0.5, 0.37, colour)
        return canvas.text(str(level), 0.5, 0.33, 0.34, WHITE, align=0.5)

    return paint
