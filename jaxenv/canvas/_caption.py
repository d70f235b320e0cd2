"""Writes text into NumPy images, for captions outside of compiled functions."""

import functools

import numpy as np

from jaxenv._util.checks import check_integer, check_text
from jaxenv.canvas import _font


def write(image: np.ndarray, text: str, x: int, y: int, height: int, colour: np.ndarray) -> None:
    """Writes a line of text, ``height`` pixels high, into an image, uint8 ``[H, W, 3]``, in place.

    It has the characters of `Canvas.text`, its upper left corner in column x and row y, and a colour, float32 ``[3]``
    from 0 to 1. What does not fit is cut off.
    """
    for i, character in enumerate(text):
        top, left = y - 1, x + round(i * _font.ADVANCE * height) - 1
        covered = _character(character, height)
        first, column = max(top, 0), max(left, 0)
        covered = covered[first - top :, column - left :, None]
        window = image[first : first + covered.shape[0], column : column + covered.shape[1]]
        covered = covered[: window.shape[0], : window.shape[1]]
        window[:] = np.round(window + covered * (colour * 255 - window)).astype(np.uint8)


def text_width(text: str, height: int) -> int:
    """Returns the width of a line of text in pixels."""
    check_text("text_width", "text", text)
    check_integer("text_width", "height", height, 1)
    return round((len(text) * _font.ADVANCE - _font.GAP) * height)


@functools.lru_cache(maxsize=1024)
def _character(character: str, height: int) -> np.ndarray:
    """Returns the fraction of each pixel that a character covers, with a border of one pixel."""
    x = np.arange(round(_font.ADVANCE * height) + 2, dtype=np.float32)[None, None] - 0.5
    y = height + 0.5 - np.arange(height + 2, dtype=np.float32)[None, :, None]
    return _font.coverage(character, x, y, height, 1.0)
