"""Two players alternately mark the cells of a 3 by 3 board; three in a line win.

Reference: ALF's ``TicTacToeEnvironment`` (tests/envs/test_tic_tac_toe.py contains its published trace), where one
sequence of actions moves both players. With ``opponent`` the agent is player 0 and the environment answers its moves,
as in TF-Agents' ``TicTacToeEnvironment``. There ``illegal_reward`` is -0.001, and a game ends with discount 1.

Observation   int8[3, 3]   -1 for a mark of player 0, 1 for a mark of player 1, 0 for a free cell
Action        int32        the cell to mark, 0 to 8, row by row; player 0 moves first
Reward        1 if player 0 wins, -1 if player 1 wins, 0 otherwise; marking a marked cell loses, with
              ``illegal_reward`` for the player who does it
Starts        with an empty board
Terminates    on a line, a full board or an illegal move
Time limit    none; an episode has at most nine moves, five of the agent with an opponent
env_info      play0_win, play1_win, draw, invalid_move: bool, the result of the step; action_mask: bool[9], free cells
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, GREY, NIGHT, ORANGE, SKY, Canvas, mix
from jaxenv.core import Task, Transition, check_choice
from jaxenv.tree import Tree

_LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]], np.int32)


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    illegal_reward: float = tree.leaf(
        default=-1.0, doc="reward of the player who marks a marked cell; the other player gets its negative"
    )


@tree.struct
class State:
    """The board, row by row."""

    board: jax.Array  # int8[B, 9], as observed


class TicTacToe(Task):
    """Tic-tac-toe for two players, or against an opponent; the module docstring is the specification."""

    params: Params = Params()
    opponent: Literal["random", "first"] | None = tree.static(
        default=None,
        doc="``None`` for both players' moves in one sequence of actions. Otherwise a step is the agent's "
        'move and the opponent\'s answer: ``"random"`` marks each free cell with equal probability (one '
        'random word), ``"first"`` marks the first free cell.',
    )
    action_names = tuple(f"row {cell // 3 + 1}, column {cell % 3 + 1}" for cell in range(9))
    summed_entries = frozenset({"draw", "invalid_move", "play0_win", "play1_win"})

    def check(self) -> None:
        check_choice("TicTacToe", "opponent", self.opponent, ("random", "first", None))

    def initial(self, stream: random.Stream) -> State:
        return State(jnp.zeros((*stream.shape, 9), jnp.int8))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        player = jnp.where(jnp.sum(state.board != 0, axis=-1) % 2 == 0, np.int8(-1), np.int8(1))
        board, legal = _mark(state.board, action, player)
        wins = legal & _has_line(board, player)
        loses = jnp.zeros_like(wins)
        if self.opponent is not None:
            over = wins | ~legal | _is_full(board)
            free = board == 0
            reply = jax.lax.argmax(free, 1, jnp.int32)
            if self.opponent == "random":
                reply = random.categorical(stream, weights=free)
            board = jnp.where(over[:, None], board, _mark(board, reply, -player)[0])
            loses = ~over & _has_line(board, -player)
        draw = legal & ~wins & ~loses & _is_full(board)
        info = {
            "play0_win": jnp.where(player == -1, wins, loses),
            "play1_win": jnp.where(player == -1, loses, wins),
            "draw": draw,
            "invalid_move": ~legal,
        }
        won = info["play0_win"].astype(jnp.float32) - info["play1_win"].astype(jnp.float32)
        illegal = jnp.where(player == -1, self.params.illegal_reward, -self.params.illegal_reward)
        return Transition(State(board), jnp.where(legal, won, illegal), wins | loses | draw | ~legal, info)

    def observe(self, state: State) -> jax.Array:
        return state.board.reshape(-1, 3, 3)

    def state_info(self, state: State) -> dict[str, Tree]:
        # On a full board the episode is over. The mask then allows every cell, so that a policy always has an action.
        return {"action_mask": (state.board == 0) | _is_full(state.board)[:, None]}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((3, 3), np.int8, -1, 1, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(9, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = canvas.fill(NIGHT).view((0, 3), (0, 3))
        for at in (1, 2):
            canvas = canvas.line(at, 0.15, at, 2.85, 0.06, GREY).line(0.15, at, 2.85, at, 0.06, GREY)
        # Player 0 has crosses and player 1 rings.
        canvas = canvas.tiles(state.board.astype(jnp.int32).reshape(-1, 3, 3) + 1, _MARKS)
        lines = state.board[:, _LINES]
        complete = (lines[..., 0] != 0) & jnp.all(lines == lines[..., :1], axis=-1)
        for number, (first, _, last) in enumerate(_LINES.tolist()):
            (row, column), (to_row, to_column) = divmod(first, 3), divmod(last, 3)
            ends = column + 0.5, 2.5 - row, to_column + 0.5, 2.5 - to_row
            canvas = canvas.line(*ends, 0.14, GOLD, alpha=complete[:, number])
        return canvas


def _mark(board: jax.Array, cell: jax.Array, player: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Marks the cell for the player if it is free; also returns whether it is."""
    chosen = cell[:, None] == np.arange(9, dtype=np.int32)[None]
    legal = jnp.any(chosen & (board == 0), axis=-1)
    return jnp.where(chosen & legal[:, None], player[:, None], board), legal


def _has_line(board: jax.Array, player: jax.Array) -> jax.Array:
    return jnp.any(jnp.all(board[:, _LINES] == player[:, None, None], axis=-1), axis=-1)


def _is_full(board: jax.Array) -> jax.Array:
    return jnp.all(board != 0, axis=-1)


# --- the picture -----------------------------------------------------------------------------------------------------

_AGENT = mix(SKY, BLUE, 0.6)  # the colour of player 0
_MARKS = (
    lambda canvas: canvas.line(0.24, 0.24, 0.76, 0.76, 0.17, _AGENT).line(0.24, 0.76, 0.76, 0.24, 0.17, _AGENT),
    None,
    lambda canvas: canvas.ring(0.5, 0.5, 0.27, 0.16, ORANGE),
)
