"""Draws a field from above, with agents and food and their levels."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import (
    BLUE,
    BROWN,
    GOLD,
    GREEN,
    INK,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    SAND,
    SKY,
    TEAL,
    WHITE,
    Canvas,
    Colour,
    mix,
)

_COLOURS = (BLUE, ORANGE, PURPLE, TEAL, PINK, GOLD, SKY, BROWN)


def draw(state: Any, size: int, canvas: Canvas) -> Canvas:
    """Paints states of `foraging.Foraging`."""
    return canvas
