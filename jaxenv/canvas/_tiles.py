"""Where the cells of a grid lie in a picture."""

import numpy as np


def side(height: int, width: int, rows: int, columns: int) -> int:
    """The side of the largest square cells that fit, in pixels."""
    return max(min(height // rows, width // columns), 1)


def cells(pixels: int, count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel the number of its cell, -1 outside of the grid, and its place within the cell."""
    at = np.arange(pixels) - (pixels - count * side) // 2
    inside = (at >= 0) & (at < count * side)
    return np.where(inside, at // side, -1), np.where(inside, at % side, 0)
