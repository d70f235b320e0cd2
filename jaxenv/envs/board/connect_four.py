"""Connect Four."""
import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Task, Transition, in_one_kernel
from jaxenv.envs.board._board import Cells, two_rewards
from jaxenv.tree import Tree

ROWS, COLUMNS = 6, 7
_HEIGHT = ROWS + 1
_cell = np.arange(COLUMNS)[None] * _HEIGHT + np.arange(ROWS)[::-1, None]  # [row, column]
_BOTTOM = Cells.of(_cell[-1], 2)
_BOARD = Cells.of(_cell, 2)


@tree.struct
class State:
    own: Cells
    other: Cells
    player: jax.Array
    over: jax.Array


class ConnectFour(Task):
    action_names = tuple(f"column {c + 1}" for c in range(COLUMNS))
    agent_names = ("first", "second")
    turns = True

    def initial(self, stream):
        empty = Cells.of([], 2).full(stream.shape)
        return State(empty, empty, jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, bool))

    def transition(self, state, action, stream):
        own, legal, wins, over = in_one_kernel(_move, state.own, state.other, action)
        result = wins.astype(jnp.int32) - (~legal).astype(jnp.int32)
        rewards = two_rewards(result, state.player)
        return Transition(State(state.other, own, 1 - state.player, over), rewards, over, {"invalid_move": ~legal})

    def observe(self, state):
        cells = _cell.reshape(-1)
        return (state.own.at(cells).astype(jnp.int8) - state.other.at(cells).astype(jnp.int8)).reshape(-1, ROWS, COLUMNS)

    def state_info(self, state):
        return {"player": state.player, "action_mask": ~(state.own | state.other).at(_cell[0]) | state.over[:, None]}

    def observation_spec(self):
        return specs.Bounded((ROWS, COLUMNS), np.int8, -1, 1, "observation")

    def action_spec(self):
        return specs.discrete(COLUMNS, name="action")


def _move(own, other, column):
    taken = own | other
    lowest = ((taken.moved(1) | _BOTTOM) - taken) & _BOARD
    offset = column.astype(jnp.uint32) * np.uint32(_HEIGHT)
    ones = np.uint32(2**ROWS - 1)
    chosen = Cells((ones << offset, (ones >> (32 - offset)) | (ones << (offset - 32))))
    placed = lowest & chosen
    own = own | placed
    legal, wins = placed.any(), _has_four(own)
    full = ~(_BOARD - (own | other)).any()
    return own, legal, wins, wins | full | ~legal


def _has_four(own):
    found = Cells.of([], 2)
    for step in (1, _HEIGHT - 1, _HEIGHT, _HEIGHT + 1):
        pairs = own & own.moved(-step)
        found = found | (pairs & pairs.moved(-2 * step))
    return found.any()
