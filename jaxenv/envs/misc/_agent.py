"""Draws an agent that moves freely in the plane."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLUE, ORANGE, Canvas

_RADIUS = np.float32(0.1)


def draw_agent(canvas: Canvas, x: jax.Array, y: jax.Array, across: jax.Array, up: jax.Array) -> Canvas:
    """Paints a disc with an arrow; outside the picture, a ring at the nearest point of its edge."""
    shown_x, shown_y = (_within(value, ends) for value, ends in ((x, canvas.x), (y, canvas.y)))
    outside = ((shown_x != x) | (shown_y != y)).astype(jnp.float32)
    canvas = canvas.arrow(shown_x, shown_y, shown_x + across, shown_y + up, 0.06, BLUE)
    canvas = canvas.disc(shown_x, shown_y, _RADIUS, ORANGE, alpha=1 - outside)
    return canvas.ring(shown_x, shown_y, 0.75 * _RADIUS, 0.5 * _RADIUS, ORANGE, alpha=outside)


def _within(value: jax.Array, ends: jax.Array) -> jax.Array:
    ends = jnp.asarray(ends).reshape(ends.shape[0], -1)
    return jnp.clip(value, ends.min(axis=1) + _RADIUS, ends.max(axis=1) - _RADIUS)
