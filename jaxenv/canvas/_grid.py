"""Writes captions into images, and arranges the pictures of all lanes in one frame."""

import functools
import math
from typing import Any

import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_integer, check_text
from jaxenv.canvas import _font
from jaxenv.canvas._palette import INK, PAPER


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


GAP = 6  # pixels between lanes
Part = tuple[slice, slice]  # rows and columns of pixels


@tree.struct
class Moment:
    """The content of a frame: the picture and the caption of every lane."""

    picture: Any  # uint8[B, H, W, 3]
    step: Any  # int32[B], the step of the episode
    total: Any  # float32[B], the sum of its rewards so far, over all components of a vector reward
    over: Any  # bool[B], lanes whose episode is over, which stand still


class Grid:
    """Puts the pictures of all lanes and their captions side by side."""

    def __init__(self, size: tuple[int, int], count: int, captions: bool):
        self.size = size
        height, width = size
        self._columns = min(math.ceil(math.sqrt(count * height / width)), count)
        self._letter = max(min(height // 16, round(width / 17)), 5) if captions else 0
        self._cell = (height + (2 * self._letter if captions else 0), width)
        self._cells = (math.ceil(count / self._columns), self._columns)
        # The part of a frame that shows each lane, with its caption.
        self.parts = tuple(self._part(lane) for lane in range(count))

    def frame(self, moment: Moment) -> np.ndarray:
        """Returns the frame of a moment, uint8 ``[H, W, 3]`` with an even height and width, as video codecs want."""
        (height, width), (rows, columns) = self._cell, self._cells
        shape = (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP)
        frame = np.empty((*(n + n % 2 for n in shape), 3), np.uint8)
        frame[:] = np.round(PAPER * 255).astype(np.uint8)
        for lane, part in enumerate(self.parts):
            frame[part][: self.size[0]] = moment.picture[lane]
            if self._letter:
                below = part[0].start + self.size[0] + self._letter // 2
                self._caption(frame, moment, lane, below, part[1].start)
        return frame

    def _part(self, lane: int) -> Part:
        (height, width), (row, column) = self._cell, divmod(lane, self._columns)
        top, left = row * (height + GAP), column * (width + GAP)
        return slice(top, top + height), slice(left, left + width)

    def _caption(self, frame: np.ndarray, moment: Moment, lane: int, top: int, left: int) -> None:
        margin = self._letter // 2
        room = self._cell[1] - 2 * margin
        step, total = f"{moment.step[lane]}", moment.total[lane]
        # In a narrow picture the return has fewer digits, or stands alone; a number that does not fit is left out.
        returns = [f"{total:.{digits}g}" for digits in (4, 3, 2)]
        pairs = [*((step, text) for text in returns), *(("", text) for text in returns), (step, "")]
        fitting = (pair for pair in pairs if text_width(" ".join(filter(None, pair)), self._letter) <= room)
        step, shown = next(fitting, ("", ""))
        write(frame, step, left + margin, top, self._letter, INK)
        write(frame, shown, left + margin + room - text_width(shown, self._letter), top, self._letter, INK)
