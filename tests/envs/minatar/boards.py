"""Boards of the original as sets of cells."""

import numpy as np

from jaxenv.envs.minatar.cells import Cells


def words(board):
    """The rows 0 to 8 of a board, bool [10, 10], as `Cells` of one lane."""
    assert not board[9].any()
    return Cells(tuple((board[:9].reshape(3, 30) @ (1 << np.arange(30))).astype(np.uint32)))
