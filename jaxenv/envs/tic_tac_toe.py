"""Two players alternately mark the cells of a 3 by 3 board; three in a line win.

Reference: ALF's ``TicTacToeEnvironment`` (tests/envs/test_tic_tac_toe.py contains its published trace).

Observation   int8[3, 3]   -1 for a mark of player 0, 1 for a mark of player 1, 0 for a free cell
Action        int32        the cell to mark, 0 to 8, row by row; player 0 moves first
Reward        1 if player 0 wins, -1 if player 1 wins, 0 otherwise; marking a marked cell loses
Starts        with an empty board
Terminates    on a line, a full board or an illegal move
Time limit    none; an episode has at most nine moves
env_info      play0_win, play1_win, draw, invalid_move: bool, the result of the move; action_mask: bool[9], the free
              cells
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.task import Task, Transition

_LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]], np.int32)


@tree.struct
class State:
    """The board, row by row."""

    board: jax.Array  # int8[B, 9], as observed


class TicTacToe(Task):
    """Tic-tac-toe with both players' moves in one sequence of actions; the module docstring is the specification."""

    def initial(self, stream):
        return State(jnp.zeros((*stream.shape, 9), jnp.int8))

    def transition(self, state, action, stream):
        player = _player_to_move(state.board)
        board, legal = _mark(state.board, action, player)
        wins, full = legal & _has_line(board, player), jnp.all(board != 0, axis=-1)
        reward = jnp.where(wins, -player, jnp.where(legal, np.int8(0), player)).astype(jnp.float32)
        info = {
            "play0_win": wins & (player == -1),
            "play1_win": wins & (player == 1),
            "draw": full & legal & ~wins,
            "invalid_move": ~legal,
        }
        return Transition(State(board), reward, terminated=wins | full | ~legal, env_info=info)

    def observe(self, state):
        return state.board.reshape(-1, 3, 3)

    def state_info(self, state):
        # On a full board the episode is over. The mask then allows every cell, so that a policy always has an action.
        full = jnp.all(state.board != 0, axis=-1, keepdims=True)
        return {"action_mask": (state.board == 0) | full}

    def observation_spec(self):
        return specs.Bounded((3, 3), np.int8, -1, 1, "observation")

    def action_spec(self):
        return specs.discrete(9, name="action")


def _player_to_move(board: jax.Array) -> jax.Array:
    """The mark of the player to move, -1 or 1: int8 ``[B]``."""
    moves = jnp.sum(board != 0, axis=-1)
    return jnp.where(moves % 2 == 0, np.int8(-1), np.int8(1))


def _mark(board: jax.Array, cell: jax.Array, player: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The board with the player's mark if the cell is free, and whether it is."""
    chosen = cell[:, None] == np.arange(9, dtype=np.int32)[None]
    legal = jnp.any(chosen & (board == 0), axis=-1)
    return jnp.where(chosen & legal[:, None], player[:, None], board), legal


def _has_line(board: jax.Array, player: jax.Array) -> jax.Array:
    return jnp.any(jnp.all(board[:, _LINES] == player[:, None, None], axis=-1), axis=-1)
