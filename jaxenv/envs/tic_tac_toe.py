"""Two players in turn mark the cells of a 3 by 3 board; three in a line win.

Reference: ALF's ``TicTacToeEnvironment`` (tests/envs/test_tic_tac_toe.py holds its published trace).

Observation   int8[3, 3]   -1 where player 0 has marked, 1 where player 1 has, 0 where a cell is free
Action        int32        cell 0 to 8, row by row, of the player whose turn it is; player 0 begins
Reward        1 if player 0 wins, -1 if player 1 wins, 0 otherwise; marking a cell twice loses at once
Starts        with a free board
Terminates    on a line, a full board or an illegal move
Time limit    none: nine moves end any episode
env_info      play0_win, play1_win, draw, invalid_move: bool, of the move; action_mask: bool[9], the free cells
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.task import Task, Transition

_LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]], np.int32)


@tree.struct
class State:
    """``board``: int8 ``[B, 9]``."""

    board: jax.Array


class TicTacToe(Task):
    """Tic-tac-toe for two players who share one action stream; see the module."""

    def initial(self, stream):
        return State(jnp.zeros((*stream.shape, 9), jnp.int8))

    def transition(self, state, action, stream):
        moves = jnp.sum(state.board != 0, axis=-1)
        player = jnp.where(moves % 2 == 0, np.int8(-1), np.int8(1))
        chosen = action[:, None] == np.arange(9, dtype=np.int32)[None]
        legal = jnp.any(chosen & (state.board == 0), axis=-1)
        board = jnp.where(chosen & legal[:, None], player[:, None], state.board)

        wins = legal & _has_line(board, player)
        full = jnp.all(board != 0, axis=-1)
        loser_pays = jnp.where(legal, np.int8(0), player)
        reward = jnp.where(wins, -player, loser_pays).astype(jnp.float32)
        ended = wins | full | ~legal
        info = {
            "play0_win": wins & (player == -1),
            "play1_win": wins & (player == 1),
            "draw": full & legal & ~wins,
            "invalid_move": ~legal,
        }
        return Transition(State(board), reward, terminated=ended, env_info=info)

    def observe(self, state):
        return state.board.reshape(-1, 3, 3)

    def state_info(self, state):
        # A full board is an ended one; every cell is marked there so that a masked policy always has an action.
        full = jnp.all(state.board != 0, axis=-1, keepdims=True)
        return {"action_mask": (state.board == 0) | full}

    def observation_spec(self):
        return specs.Bounded((3, 3), np.int8, -1, 1, "observation")

    def action_spec(self):
        return specs.discrete(9, name="action")


def _has_line(board: jax.Array, player: jax.Array) -> jax.Array:
    return jnp.any(jnp.all(board[:, _LINES] == player[:, None, None], axis=-1), axis=-1)
