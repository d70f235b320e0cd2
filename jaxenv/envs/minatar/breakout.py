"""Bounce a ball off a paddle and break three rows of bricks.

Reference: ``minatar`` 1.0.15, game ``breakout`` (tests/envs/minatar/test_breakout.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 4]   channels paddle, ball, trail (where the ball was a step before), brick
Action        int32             0 nothing, 1 left, 2 right; with minimal_actions=False 0 to 5: n l u r d f
Reward        1 for every brick
Starts        with three full rows of bricks, the paddle in column 4 and the ball in row 3, at the left wall on its way
              down and right or at the right wall on its way down and left, each half the time
Terminates    when the ball passes the paddle
Time limit    none
Ramping       none: difficulty_ramping changes nothing
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._actions import toward
from jaxenv.envs.minatar.game import LEFT, RIGHT, SIZE, MinAtar, board, one_cell

_ALL_BRICKS = np.uint32(2**30 - 1)
_TOP = 1  # the first of the three rows of bricks


@tree.struct
class State:
    """The board. Rows are counted from the top, columns from the left, each int32 ``[B]``; flags are bool ``[B]``."""

    paddle: jax.Array  # column, in row 9
    ball_row: jax.Array
    ball_column: jax.Array
    trail_row: jax.Array  # where the ball was a step before
    trail_column: jax.Array
    down: jax.Array  # whether the ball moves down, else up
    right: jax.Array  # whether the ball moves right, else left
    strike: jax.Array  # whether the ball has broken a brick and not yet left the bricks: it passes through them
    bricks: jax.Array  # uint32[B], bit 10 * (row - 1) + column


class Breakout(MinAtar):
    """Breakout; see the module."""

    channels = ("paddle", "ball", "trail", "brick")
    minimal = "nlr"

    def start(self, stream):
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

    def advance(self, game, action, draws):
        paddle = jnp.clip(game.paddle + toward(action, RIGHT, LEFT), 0, SIZE - 1)

        # One cell along the diagonal; walls turn the ball round.
        ahead = game.ball_column + jnp.where(game.right, np.int32(1), np.int32(-1))
        column = jnp.clip(ahead, 0, SIZE - 1)
        right = game.right ^ (column != ahead)
        row = game.ball_row + jnp.where(game.down, np.int32(1), np.int32(-1))

        brick = _brick(row, column)
        struck = (game.bricks & brick) != 0
        breaks = struck & ~game.strike
        bricks = jnp.where(breaks, game.bricks ^ brick, game.bricks)

        # A cleared wall is built up again only when the ball comes down to the paddle.
        bottom = row == SIZE - 1
        bricks = jnp.where(bottom & (bricks == 0), _ALL_BRICKS, bricks)
        # Above the paddle the ball goes back up; onto its edge, a column further, it is also turned round.
        above, edge = game.ball_column == paddle, column == paddle
        caught = bottom & (above | edge)
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

    def show(self, game):
        paddle = one_cell(SIZE * (SIZE - 1) + game.paddle)
        ball = one_cell(SIZE * game.ball_row + game.ball_column)
        trail = one_cell(SIZE * game.trail_row + game.trail_column)
        return board([paddle, ball, trail, (game.bricks[:, None] & _SHOWN_BRICKS[None]) != 0])


def _brick(row: jax.Array, column: jax.Array) -> jax.Array:
    """The bit of a cell among ``bricks``; 0 in other rows."""
    # Above the rows a place is negative and wraps to a large one.
    place = (SIZE * (row - _TOP) + column).astype(jnp.uint32)
    return jnp.where(place < 3 * SIZE, np.uint32(1) << place, np.uint32(0))


# Which bit of ``bricks`` each cell shows.
_SHOWN_BRICKS = np.zeros(SIZE * SIZE, np.uint32)
_SHOWN_BRICKS[SIZE * _TOP : SIZE * (_TOP + 3)] = np.uint32(1) << np.arange(3 * SIZE, dtype=np.uint32)
