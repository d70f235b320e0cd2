"""Boards of the original as sets of cells."""

import numpy as np

from jaxenv.envs.minatar._bitboard import Bitboard


def bitboard(board):
    """Rows 0 to 8 of a board, bool [10, 10], as a `Bitboard` of one lane."""
    assert not board[9].any()
    return Bitboard(tuple((board[:9].reshape(3, 30) @ (1 << np.arange(30))).astype(np.uint32)))
