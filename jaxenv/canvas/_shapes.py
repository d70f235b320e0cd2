"""Distances to shapes, and grids of cells: what the canvas paints by arithmetic.

Distances are signed, negative inside, in the units of the coordinates; arrays are ``[B, H, W]``. The formulas are by
Inigo Quilez, "2D distance functions", https://iquilezles.org/articles/distfunctions2d/.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.core
import numpy as np

from jaxenv._util import xla
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


_MOST_WORDS = 2**18  # of a table of cells that lie on each other


def side(owner: str, height: int, width: int, rows: int, columns: int) -> int:
    """Returns the side of the largest square cells that fit, in pixels; raises a ``ValueError`` if none do."""
    fits = min(height // rows, width // columns)
    if not fits:
        raise ValueError(f"{owner}: a picture of {rows} x {columns} cells needs as many pixels, got {height} x {width}")
    return fits


def enlarged(cells: Any, side: int, height: int, width: int) -> tuple[Any, np.ndarray]:
    """Enlarges cells ``[B, R, C, ...]`` to squares in the middle of a picture ``[B, H, W, ...]``.

    Also returns which pixels lie in the grid, bool ``[1, H, W]``; the others repeat the outermost cells.
    """
    row, _, in_rows = _places(height, cells.shape[1], side)
    column, _, in_columns = _places(width, cells.shape[2], side)
    return cells[:, row][:, :, column], (in_rows[:, None] & in_columns)[None]


def _places(pixels: int, count: int, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each pixel row's row of cells, its place within it, and whether it lies in the grid."""
    at = np.arange(pixels) - (pixels - count * side) // 2
    return np.clip(at // side, 0, count - 1), (at % side).astype(np.uint32), (at >= 0) & (at < count * side)


def lookup(kinds: Any, table: np.ndarray, height: int, width: int, ground: Any) -> Any:
    """Looks up a grid of cells of several kinds, int32 ``[B, R, C]``, in a table of words, uint32 ``[K, side, side]``.

    Returns the words of all pixels, uint32 ``[B, H, W]``; those around the grid are ``ground``.
    """
    side = table.shape[-1]
    row, down, in_rows = _places(height, kinds.shape[1], side)
    column, across, in_columns = _places(width, kinds.shape[2], side)
    # The columns of a row of cells are found once for all of its rows of pixels.
    cells = computed_once(kinds.astype(np.uint32)[:, :, column] * np.uint32(side * side) + across[None, None])
    index, table = cells[:, row] + down[None, :, None] * np.uint32(side), table.reshape(-1)
    words = xla.take_rows(table, index) if isinstance(index, jax.Array) else table[index]
    return _xp.where((in_rows[:, None] & in_columns)[None], words, ground)


def is_ground(planes: Sequence[Any]) -> bool:
    """Returns whether planes are known while tracing and equal in all lanes."""
    return all(isinstance(plane, np.ndarray) and len(plane) == 1 for plane in planes)


def mosaic(layers: Sequence[tuple[Any, Any]], planes: Sequence[Any]) -> tuple[Any, np.ndarray] | None:
    """Merges grids of cells, kinds and sheet of each from the lowest on, and the planes below, float32 ``[1, H, W]``.

    Returns the kinds of a single grid, int32 ``[B, R, C]``, and the colours of each kind, float32 ``[3, K, side,
    side]``, or ``None`` if these would be too many or not known while tracing.
    """
    if not is_ground(planes) or any(isinstance(words, jax.Array) for _, words in layers):
        return None
    ground, (rows, columns), side = np.concatenate(planes), layers[0][0].shape[1:], layers[0][1].shape[-1]
    top, left = (ground.shape[1] - rows * side) // 2, (ground.shape[2] - columns * side) // 2
    cells = ground[:, top : top + rows * side, left : left + columns * side].reshape(3, rows, side, columns, side)
    cells, inverse = np.unique(cells.swapaxes(2, 3).reshape(3, -1, side, side), axis=1, return_inverse=True)
    kinds: Any = inverse.astype(np.int32).reshape(1, rows, columns)
    for above, words in layers:
        if above.shape[1:] != (rows, columns) or cells[0].size * len(words) > _MOST_WORDS:
            return None
        *light, opacity = unpacked(words)
        cells = (cells[:, :, None] * (1 - opacity) + np.stack(light)[:, None]).reshape(3, -1, side, side)
        kinds = kinds * np.int32(len(words)) + above
    return kinds, cells


def unpacked(words: Any) -> tuple[Any, ...]:
    """Returns the four bytes of words as numbers from 0 to 1: red, green, blue and opacity."""
    return tuple((words >> np.uint32(i) & np.uint32(255)).astype(np.float32) / np.float32(255) for i in (0, 8, 16, 24))


def computed_once(pixels: Any) -> Any:
    """Computes an array apart from the kernels that read it, because table lookups are not vectorised."""
    return xla.computed_once(pixels) if isinstance(pixels, jax.core.Tracer) else pixels


def sheet(painters: Sequence[Callable[..., Any] | None], black: Any, white: Any) -> np.ndarray:
    """Returns the pixels of all kinds of cells, uint32 ``[K, side, side]``: bytes of red, green, blue and opacity.

    Each painter paints one kind on the canvases of one cell, a ``black`` and a ``white`` one.
    """
    with jax.ensure_compile_time_eval():
        dark, light = (
            np.concatenate([np.stack((ground if paint is None else paint(ground)).planes, -1) for paint in painters])
            for ground in (black, white)
        )
    # Black shows the light of the cell only, white also the light that shines through.
    opacity = 1 - (light - dark).mean(axis=-1, keepdims=True)
    levels = np.round(np.concatenate([dark, opacity], axis=-1).clip(0, 1) * 255).astype(np.uint32)
    return np.asarray(np.sum(levels << np.array([0, 8, 16, 24], np.uint32), axis=-1, dtype=np.uint32))
