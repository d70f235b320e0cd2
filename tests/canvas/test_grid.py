"""Tests of `jaxenv.canvas._grid`."""

import numpy as np
import pytest

from jaxenv.canvas import _grid, text_width
from jaxenv.canvas._grid import Grid, Moment


@pytest.mark.parametrize(("size", "lanes", "width"), [((128, 64), 1, 64), ((128, 16), 1, 16), ((256, 64), 2, 134)])
def test_tall_pictures_leave_no_empty_columns(size, lanes, width):
    picture = np.zeros((lanes, *size, 3), np.uint8)
    zeros = np.zeros(lanes, np.int32)
    frame = Grid(size, lanes, False).frame(Moment(picture, zeros, zeros.astype(np.float32), zeros > 0))
    assert frame.shape[1] == width


@pytest.mark.parametrize("size", [24, 32, 48, 64])
@pytest.mark.parametrize("total", [-1234.0, -12345.0, 7.0])
def test_step_and_return_do_not_overlap(monkeypatch, size, total):
    written = []
    monkeypatch.setattr(_grid, "write", lambda frame, text, x, y, letter, ink: written.append((text, x, letter)))
    moment = Moment(np.zeros((1, size, size, 3), np.uint8), np.array([200]), np.array([total]), np.array([False]))
    Grid((size, size), 1, True).frame(moment)
    (step, left, letter), (shown, right, _) = written
    assert not step or left + text_width(step, letter) < right
    assert right >= 0
    assert not shown or float(shown) == pytest.approx(total, rel=0.05)  # two digits at least
    assert (step and shown) or size < 64
    assert step or shown
