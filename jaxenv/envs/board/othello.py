"""Othello."""
import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Task, Transition, in_one_kernel
from jaxenv.envs.board._board import Cells, two_rewards

_U = np.uint32
_SIZE = 8
_PASS = _SIZE * _SIZE
_CELLS = np.arange(_PASS)
_ACTIONS = np.arange(65)
_ALL = Cells.of(_ACTIONS, 3)
_BOARD = Cells.of(_CELLS, 2)
_INNER = Cells.of(_CELLS[(_CELLS % _SIZE > 0) & (_CELLS % _SIZE < _SIZE - 1)], 2)  # all but the outer columns
# Distances of neighbours: to the right, down, down and left, down and right.
_DISTANCES = (1, _SIZE, _SIZE - 1, _SIZE + 1)


@tree.struct
class State:
    own: Cells
    other: Cells
    moves: Cells
    player: jax.Array
    passed: jax.Array


class Othello(Task):
    action_names = (*(f"row {cell // 8 + 1}, column {cell % 8 + 1}" for cell in range(64)), "pass")
    agent_names = ("black", "white")
    turns = True

    def initial(self, stream):
        def s(*cells): return Cells.of(cells, 2).full(stream.shape)
        return State(s(28, 35), s(27, 36), Cells.of([19, 26, 37, 44], 3).full(stream.shape), jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, bool))

    def transition(self, state, action, stream):
        own, other, moves, legal, over, result = in_one_kernel(_move, state.own, state.other, state.moves, state.passed, action)
        state = State(other, own, moves, 1 - state.player, action == _PASS)
        return Transition(state, two_rewards(result, 1 - state.player), over, {"invalid_move": ~legal})

    def observe(self, state):
        cells = state.own.at(_CELLS).astype(jnp.int8) - state.other.at(_CELLS).astype(jnp.int8)
        return cells.reshape(-1, _SIZE, _SIZE)

    def state_info(self, state):
        return {"player": state.player, "action_mask": state.moves.at(_ACTIONS)}

    def observation_spec(self):
        return specs.Bounded((8,8), np.int8, -1, 1, "observation")

    def action_spec(self):
        return specs.discrete(65, name="action")


def _move(own, other, moves, passed, action):
    chosen = Cells.cell(action, 3) & moves
    legal, passes, placed = chosen.any(), action == _PASS, Cells(chosen.words[:2])
    turned = _turned(placed, own, other)
    own, other = own | placed | turned, other - turned
    full = ~(_BOARD - own - other).any()
    ends = full | ~other.any() | (passes & passed)
    lead = jnp.sign(own.count() - other.count())
    result = jnp.where(legal, jnp.where(ends, lead, np.int32(0)), np.int32(-1))
    over = ends | ~legal
    moves = _moves(other, own)
    third = jnp.where(moves.any(), _U(0), _U(1))
    moves = Cells((*moves.words, third)) | _ALL.where(over)
    return own, other, moves, legal, over, result


def _turned(placed, own, other):
    turned = Cells.of([], 2)
    for distance in _DISTANCES:
        line = other if distance == _SIZE else other & _INNER
        for way in (distance, -distance):
            reached = _reached(placed, line, way)
            turned = turned | reached.where((reached.moved(way) & own).any())
    return turned


def _moves(own, other):
    moves = Cells.of([], 2)
    for distance in _DISTANCES:
        line = other if distance == _SIZE else other & _INNER
        for way in (distance, -distance):
            moves = moves | _reached(own, line, way).moved(way)
    return (moves & _BOARD) - own - other


def _reached(start, line, way):
    """Returns the cells of ``line`` that lie in an unbroken row behind a cell of ``start``."""
    reached = line & start.moved(way)
    reached = reached | (line & reached.moved(way))
    pairs = line & line.moved(way)
    for _ in range(2):
        reached = reached | (pairs & reached.moved(2 * way))
    return reached
