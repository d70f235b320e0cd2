"""Places grids of cells in a picture, and paints them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxenv._util.xla import take_rows
from jaxenv.canvas import _xp


def side(owner: str, height: int, width: int, rows: int, columns: int) -> int:
    """Returns the side of the largest square cells that fit, in pixels.

    Raises:
        ValueError: if there are more cells than pixels.
    """
    fits = min(height // rows, width // columns)
    if not fits:
        raise ValueError(f"{owner}: a picture of {rows} x {columns} cells needs as many pixels, got {height} x {width}")
    return fits


def enlarged(cells: Any, side: int, height: int, width: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Enlarges cells ``[B, R, C, ...]`` to squares in the middle of a picture ``[B, H, W, ...]``.

    Returns:
        The picture, which repeats the outermost cells outside the grid; for each pixel its number within its square,
        int32 ``[1, H, W]``; and whether it lies in the grid, bool ``[1, H, W]``.
    """
    (row, down, in_rows), (column, across, in_columns) = (
        _places(pixels, count, side) for pixels, count in ((height, cells.shape[1]), (width, cells.shape[2]))
    )
    within, inside = down[:, None] * side + across[None], in_rows[:, None] & in_columns[None]
    return cells[:, row][:, :, column], within.astype(np.int32)[None], inside[None]


def _places(pixels: int, count: int, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each pixel row's row of cells, its place within it, and whether it lies in the grid."""
    at = np.arange(pixels) - (pixels - count * side) // 2
    return np.clip(at // side, 0, count - 1), at % side, (at >= 0) & (at < count * side)


def pixels(kinds: Any, table: np.ndarray, side: int, height: int, width: int) -> Any:
    """Looks up a grid of cells of several kinds, int32 ``[B, R, C]``, in the table: words, uint32 ``[B, H, W]``."""
    kind, within, inside = enlarged(kinds, side, height, width)
    index = kind * np.int32(side * side) + within
    words = take_rows(table, index) if isinstance(index, jax.Array) else table[index]
    return _xp.where(inside, words, np.uint32(0))


def sheet(painters: Sequence[Callable[..., Any] | None], black: Any, white: Any) -> np.ndarray:
    """Returns the pixels of all kinds of cells, uint32 ``[K * side * side]``: bytes of red, green, blue and opacity.

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
    return np.sum(levels << np.array([0, 8, 16, 24], np.uint32), axis=-1, dtype=np.uint32).reshape(-1)
