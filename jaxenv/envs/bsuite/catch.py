"""Move a paddle along the bottom of a board to catch a ball that falls straight down.

Reference: bsuite 0.3.6 ``catch`` (tests/envs/bsuite/test_catch.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[rows, columns]   1 where the ball or the paddle is, 0 elsewhere
Action        int32                    0 moves the paddle left, 1 does not move it, 2 moves it right
Reward        1 on catching the ball, -1 on missing it, 0 before
Starts        ball in the top row, its column uniform; paddle in the middle of the bottom row
Terminates    when the ball is in the bottom row, after rows - 1 steps
Time limit    none
env_info      total_regret: float32, 2 for every missed ball, accumulated over the episodes of a lane
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import NIGHT, RED, SKY, WHITE, Canvas
from jaxenv.core import Task, Transition, in_own_kernels
from jaxenv.envs._drawing import floor, place


@tree.struct
class State:
    """Positions on the board and a counter, each int32 ``[B]``."""

    ball_row: jax.Array
    ball_column: jax.Array
    paddle: jax.Array  # column
    misses: jax.Array  # of all episodes


class Catch(Task):
    """Catch; the module docstring is the specification."""

    rows: int = tree.static(default=10, low=2, doc="number of rows of the board, at least 2")
    columns: int = tree.static(default=5, low=1, doc="number of columns of the board")
    finite_observation = True
    action_names = ("left", "stay", "right")

    def initial(self, stream: random.Stream) -> State:
        column = random.integers(stream, (), 0, self.columns)
        lanes = jnp.zeros_like(column)
        return State(lanes, column, lanes + np.int32(self.columns // 2), lanes)

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(new, misses=old.misses)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        paddle = jnp.clip(state.paddle + action - 1, 0, self.columns - 1)
        row = state.ball_row + 1
        landed = row == self.rows - 1
        missed = landed & (paddle != state.ball_column)
        state = State(row, state.ball_column, paddle, state.misses + missed.astype(jnp.int32))
        reward = landed.astype(jnp.float32) - 2 * missed.astype(jnp.float32)
        return Transition(state, reward, terminated=landed)

    def observe(self, state: State) -> jax.Array:
        cells = np.arange(self.rows * self.columns, dtype=np.int32)[None]
        ball = state.ball_row * self.columns + state.ball_column
        paddle = (self.rows - 1) * self.columns + state.paddle

        def board(ball: jax.Array, paddle: jax.Array) -> jax.Array:
            return ((cells == ball) | (cells == paddle)).astype(jnp.float32)

        return in_own_kernels(board, ball[:, None], paddle[:, None]).reshape(-1, self.rows, self.columns)

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {"total_regret": np.float32(2) * state.misses.astype(jnp.float32)}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((self.rows, self.columns), np.float32, 0, 1, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(3, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        board = (self.rows, self.columns)
        canvas = canvas.fill(NIGHT).tiles(np.zeros((1, *board), np.int32), [floor])
        paddle = (self.rows - 1) * self.columns + state.paddle
        canvas = canvas.tiles(place(paddle, board), _PADDLE)
        missed = (state.ball_row == self.rows - 1) & (state.paddle != state.ball_column)
        ball = state.ball_row * self.columns + state.ball_column
        return canvas.tiles(place(ball, board, 1 + missed.astype(jnp.int32)), _BALL)


# --- the picture -----------------------------------------------------------------------------------------------------

_PADDLE = (None, lambda canvas: canvas.box(0.5, 0.3, 0.98, 0.36, SKY, corner=0.16))
_BALL = (  # in play, and missed
    None,
    lambda canvas: canvas.disc(0.5, 0.6, 0.32, WHITE),
    lambda canvas: canvas.disc(0.5, 0.4, 0.32, RED),
)
