"""Arranges the pictures of all lanes in one frame, with their captions."""

import math
from typing import Any

import numpy as np

from jaxenv import tree
from jaxenv.canvas._caption import text_width, write
from jaxenv.canvas._palette import INK, PAPER

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
