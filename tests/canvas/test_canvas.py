"""The canvas: views and tiles."""

import numpy as np
import pytest

from jaxenv.canvas import BLACK, WHITE, Canvas


@pytest.mark.parametrize("size", [(40, 40), (45, 61), (47, 40), (8, 9)])
def test_the_view_of_cells_lies_on_the_tiles(size):
    kinds = np.zeros((1, 3, 5), np.int32)
    kinds[0, 2, 1] = 1  # the second cell of the lowest row
    blank = Canvas.blank(1, size, BLACK)
    tiles = blank.tiles(kinds, [None, lambda canvas: canvas.fill(WHITE)])
    box = blank.view_cells(3, 5).box(1.5, 0.5, 1, 1, WHITE)
    np.testing.assert_allclose(box.pixels, tiles.pixels, atol=1e-3)
    assert 0 < tiles.pixels.sum() < tiles.pixels.size
