"""Computes signed distances to shapes, negative inside, in the units of the coordinates; arrays are ``[B, H, W]``.

The formulas are by Inigo Quilez, "2D distance functions", https://iquilezles.org/articles/distfunctions2d/.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxenv.canvas import _xp


def length(x: Any, y: Any) -> Any:
    """Returns the distance to the origin."""
    return _xp.sqrt(x * x + y * y)


def segment(x: Any, y: Any, to_x: Any, to_y: Any) -> Any:
    """Returns the distance to the line from the origin to ``(to_x, to_y)``."""
    along = (x * to_x + y * to_y) / _xp.maximum(to_x * to_x + to_y * to_y, 1e-12)
    along = along.clip(0, 1)
    return length(x - along * to_x, y - along * to_y)


def box(x: Any, y: Any, half_width: Any, half_height: Any, corner: Any) -> Any:
    """Returns the distance to a rectangle around the origin with round corners."""
    right, up = abs(x) - half_width + corner, abs(y) - half_height + corner
    outside = length(_xp.maximum(right, 0), _xp.maximum(up, 0))
    return outside + _xp.minimum(_xp.maximum(right, up), 0) - corner


def ellipse(x: Any, y: Any, half_width: Any, half_height: Any) -> Any:
    """Returns the distance to an ellipse around the origin, to first order near its edge."""
    scaled = length(x / half_width, y / half_height)
    slope = length(x / (half_width * half_width), y / (half_height * half_height))
    return scaled * (scaled - 1) / _xp.maximum(slope, 1e-6)


def polygon(x: Any, y: Any, corners: Sequence[tuple[Any, Any]]) -> Any:
    """Returns the distance to a polygon."""
    distance, inside = np.float32(np.inf), np.False_
    for (a, b), (c, d) in zip(corners, [*corners[1:], corners[0]], strict=True):
        to_edge = segment(x - a, y - b, c - a, d - b)
        # The edge changes sides if a ray to the right crosses it.
        crosses = ((b > y) != (d > y)) & (x < (c - a) * (y - b) / _xp.where(d == b, 1e-12, d - b) + a)
        distance, inside = _xp.minimum(distance, to_edge), inside ^ crosses
    return _xp.where(inside, -distance, distance)


def arc(x: Any, y: Any, radius: Any, middle: Any, half: Any) -> Any:
    """Returns the distance to the arc of a circle around the origin that reaches ``half`` to both sides of an angle."""
    along, off = _mirrored(x, y, middle)
    half = _xp.minimum(half, np.float32(np.pi))
    cos, sin = _xp.cos(half), _xp.sin(half)
    beyond = off * cos > along * sin
    to_end = length(along - radius * cos, off - radius * sin)
    return _xp.where(beyond, to_end, abs(length(x, y) - radius))


def sector(x: Any, y: Any, radius: Any, middle: Any, half: Any) -> Any:
    """Returns the distance to the part of a disc around the origin that reaches ``half`` to both sides of an angle."""
    along, off = _mirrored(x, y, middle)
    half = _xp.minimum(half, np.float32(np.pi))
    cos, sin = _xp.cos(half), _xp.sin(half)
    at = _xp.clip(along * cos + off * sin, 0, radius)
    to_side = length(along - at * cos, off - at * sin)
    return _xp.maximum(length(x, y) - radius, to_side * _xp.sign(off * cos - along * sin))


def arrow(x: Any, y: Any, along_x: Any, along_y: Any, extent: Any, width: Any) -> Any:
    """Returns the distance to an arrow from the origin; its head is 3 widths long and 3 wide."""
    along, off = x * along_x + y * along_y, abs(y * along_x - x * along_y)
    neck = _xp.maximum(extent - 3 * width, 0)
    shaft = segment(along, off, neck, 0 * neck) - width / 2
    return _xp.minimum(shaft, _head(along - neck, off, width))


def arc_arrow(x: Any, y: Any, radius: Any, middle: Any, half: Any, sign: Any, width: Any) -> Any:
    """Returns the distance to an arrow along an arc; ``sign`` is 1 if it points counterclockwise, else -1."""
    head = _xp.minimum(1.5 * width / _xp.maximum(radius, 1e-6), half)  # half the angle of the head
    shaft = arc(x, y, radius, middle - sign * head, half - head) - width / 2
    neck = middle + sign * (half - 2 * head)
    # The head is straight, and its tip lies on the circle as well.
    x, y = x - radius * _xp.cos(neck), y - radius * _xp.sin(neck)
    cos, sin = _xp.cos(neck + sign * head), _xp.sin(neck + sign * head)
    return _xp.minimum(shaft, _head((y * cos - x * sin) * sign, abs(x * cos + y * sin), width))


def _head(along: Any, off: Any, width: Any) -> Any:
    """Returns the distance to an arrow head that begins at the origin, 3 widths long and 3 wide."""
    slanted = (off - 1.5 * width) * np.float32(2 / 5**0.5) + along * np.float32(1 / 5**0.5)
    return _xp.maximum(-along, slanted)


def _mirrored(x: Any, y: Any, angle: Any) -> tuple[Any, Any]:
    """Returns the coordinate along an angle and the absolute coordinate across it."""
    cos, sin = _xp.cos(angle), _xp.sin(angle)
    return x * cos + y * sin, abs(y * cos - x * sin)
