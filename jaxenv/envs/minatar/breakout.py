"""Bounce a ball off a paddle and break three rows of bricks.

Reference: ``minatar`` 1.0.15, game ``breakout`` (tests/envs/minatar/test_breakout.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 4]   channels paddle, ball, trail (the ball's cell one step before), brick
Action        int32             0 nothing, 1 left, 2 right; minimal_actions=False: nothing, left, up, right, down, fire
Reward        1 for each brick
Starts        with three full rows of bricks, the paddle in column 4, and the ball in row 3, moving down and inward from
              the left or the right wall, with probability 1/2 each
Terminates    when the ball passes the paddle
Time limit    none
Ramping       none: difficulty_ramping has no effect
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.canvas import GOLD, ORANGE, RED
from jaxenv.core import in_own_kernels, toward
from jaxenv.envs.minatar import _sprites
from jaxenv.envs.minatar.minatar import LEFT, RIGHT, SIZE, MinAtar
from jaxenv.tree import Tree

_ALL_BRICKS = np.uint32(2**30 - 1)
_TOP = 1  # first of the three rows of bricks


@tree.struct
class State:
    """The board. Rows and columns are int32 ``[B]``, counted from the top left; flags are bool ``[B]``."""

    paddle: jax.Array  # column; the row is 9
    ball_row: jax.Array
    ball_column: jax.Array
    trail_row: jax.Array  # the ball's cell one step before
    trail_column: jax.Array
    down: jax.Array  # whether the ball moves down rather than up
    right: jax.Array  # whether the ball moves right rather than left
    strike: jax.Array  # whether the last move hit a brick; the next brick in the ball's way is then not broken
    bricks: jax.Array  # uint32[B], bit 10 * (row - 1) + column


class Breakout(MinAtar):
    """Breakout; see the module docstring."""

    channels = ("paddle", "ball", "trail", "brick")
    minimal = "nlr"
    elementwise = True

    def start(self, stream: random.Stream) -> State:
        from_right = random.bernoulli(stream)
        row = jnp.full(stream.shape, np.int32(3))
        column = jnp.where(from_right, np.int32(SIZE - 1), np.int32(0))
        return State(
            paddle=jnp.full(stream.shape, np.int32(4)),
            ball_row=row,
            ball_column=column,
            trail_row=row,
            trail_column=column,
            down=jnp.ones(stream.shape, bool),
            right=~from_right,
            strike=jnp.zeros(stream.shape, bool),
            bricks=jnp.full(stream.shape, _ALL_BRICKS),
        )

    def advance(self, game: State, action: jax.Array, draws: Tree) -> tuple[Tree, jax.Array, jax.Array]:
        paddle = jnp.clip(game.paddle + toward(action, RIGHT, LEFT), 0, SIZE - 1)

        # The ball moves one cell along a diagonal and bounces off the side walls.
        ahead = game.ball_column + jnp.where(game.right, np.int32(1), np.int32(-1))
        column = jnp.clip(ahead, 0, SIZE - 1)
        right = game.right ^ (column != ahead)
        row = game.ball_row + jnp.where(game.down, np.int32(1), np.int32(-1))

        brick = _brick(row, column)
        struck = (game.bricks & brick) != 0
        breaks = struck & ~game.strike
        bricks = jnp.where(breaks, game.bricks ^ brick, game.bricks)

        # Cleared bricks are only replaced when the ball is back at the bottom.
        bottom = row == SIZE - 1
        bricks = jnp.where(bottom & (bricks == 0), _ALL_BRICKS, bricks)
        # A ball that comes down above the paddle bounces up; one that comes down diagonally onto it, from the next
        # column, bounces back the way it came.
        above, diagonal = game.ball_column == paddle, column == paddle
        caught = bottom & (above | diagonal)
        top = row < 0

        after = State(
            paddle=paddle,
            ball_row=jnp.where(breaks | caught, game.ball_row, jnp.maximum(row, 0)),
            ball_column=column,
            trail_row=game.ball_row,
            trail_column=game.ball_column,
            down=game.down ^ (top | breaks | caught),
            right=right ^ (caught & ~above),
            strike=struck,
            bricks=bricks,
        )
        return after, breaks, bottom & ~caught

    def board(self, game: State) -> jax.Array:
        paddle = SIZE * (SIZE - 1) + game.paddle
        ball, trail = SIZE * game.ball_row + game.ball_column, SIZE * game.trail_row + game.trail_column
        bricks = (game.bricks >> np.uint32(8 * i) for i in range(4))
        values = [x.astype(jnp.uint8)[:, None] for x in (paddle, ball, trail, *bricks)]
        return in_own_kernels(_image, *values).reshape(-1, SIZE, SIZE, len(self.channels))

    # --- the picture -------------------------------------------------------------------------------------------------

    def scene(self, game: State) -> tuple[jax.Array, Sequence[_sprites.Sprite]]:
        board = self.board(game)
        row = np.arange(SIZE)[None, :, None, None] == np.arange(_TOP, _TOP + 3)[None, None, None]
        bricks = [partial(_sprites.brick, colour=colour) for colour in (RED, ORANGE, GOLD)]
        cells = jnp.concatenate([board[..., :3], board[..., 3:] & row], axis=-1)
        return cells, (_sprites.paddle, _sprites.ball, _sprites.ball_trail, *bricks)


def _brick(row: jax.Array, column: jax.Array) -> jax.Array:
    """Returns the bit of a cell in ``State.bricks``; 0 for a cell outside the rows of bricks."""
    # Above the bricks the difference is negative and wraps to a large index.
    index = (SIZE * (row - _TOP) + column).astype(jnp.uint32)
    return jnp.where(index < 3 * SIZE, np.uint32(1) << index, np.uint32(0))


# The image is one axis of 400 bytes, so that a vector instruction computes many elements. An element of the first
# three channels compares its cell with that of the object, one of the last tests a bit in one of four bytes of bricks.
_CELL, _CHANNEL = np.divmod(np.arange(4 * SIZE * SIZE)[None], 4)
_NUMBER = _CELL - SIZE * _TOP  # of the brick
_IS_BRICK = (_CHANNEL == 3) & (_NUMBER >= 0) & (_NUMBER < 3 * SIZE)
_BYTE = np.where(_IS_BRICK, _NUMBER // 8, 0)
_BIT = np.where(_IS_BRICK, 1 << _NUMBER % 8, 0).astype(np.uint8)


def _image(*values: jax.Array) -> jax.Array:
    """Returns the board, bool ``[B, 400]``, from cells of paddle, ball and trail, and four bytes of bricks."""
    paddle, ball, trail, *bricks = values
    cell = jnp.where(_CHANNEL == 0, paddle, jnp.where(_CHANNEL == 1, ball, trail))
    lower, upper = jnp.where(_BYTE == 0, bricks[0], bricks[1]), jnp.where(_BYTE == 2, bricks[2], bricks[3])
    is_there = (cell == _CELL.astype(np.uint8)) & (_CHANNEL < 3)
    return is_there | ((jnp.where(_BYTE < 2, lower, upper) & _BIT) != 0)
