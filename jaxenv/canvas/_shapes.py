"""Signed distances to shapes: negative inside, in the units of the coordinates. Arrays broadcast to ``[B, H, W]``.

The formulas are those of Inigo Quilez, "2D distance functions", https://iquilezles.org/articles/distfunctions2d/.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp


def length(x: Any, y: Any) -> jax.Array:
    """The distance to the origin."""
    return jnp.sqrt(x * x + y * y)


def segment(x: Any, y: Any, to_x: Any, to_y: Any) -> jax.Array:
    """The distance to the line from the origin to ``(to_x, to_y)``."""
    along = (x * to_x + y * to_y) / jnp.maximum(to_x * to_x + to_y * to_y, 1e-12)
    along = jnp.clip(along, 0, 1)
    return length(x - along * to_x, y - along * to_y)


def box(x: Any, y: Any, half_width: Any, half_height: Any, corner: Any) -> jax.Array:
    """The distance to a rectangle around the origin with round corners."""
    right, up = jnp.abs(x) - half_width + corner, jnp.abs(y) - half_height + corner
    outside = length(jnp.maximum(right, 0), jnp.maximum(up, 0))
    return outside + jnp.minimum(jnp.maximum(right, up), 0) - corner


def ellipse(x: Any, y: Any, half_width: Any, half_height: Any) -> jax.Array:
    """The distance to an ellipse around the origin, to first order near its edge."""
    scaled = length(x / half_width, y / half_height)
    slope = length(x / (half_width * half_width), y / (half_height * half_height))
    return scaled * (scaled - 1) / jnp.maximum(slope, 1e-6)


def polygon(x: Any, y: Any, corners: Sequence[tuple[Any, Any]]) -> jax.Array:
    """The distance to a polygon."""
    distance, inside = jnp.float32(jnp.inf), jnp.bool_(False)
    for (a, b), (c, d) in zip(corners, [*corners[1:], corners[0]], strict=True):
        to_edge = segment(x - a, y - b, c - a, d - b)
        # The edge changes sides if a ray to the right crosses it.
        crosses = ((b > y) != (d > y)) & (x < (c - a) * (y - b) / jnp.where(d == b, 1e-12, d - b) + a)
        distance, inside = jnp.minimum(distance, to_edge), inside ^ crosses
    return jnp.where(inside, -distance, distance)
