"""Two players place discs on a board of 8 by 8 cells and turn the opponent's discs that they enclose.

Reference: Pgx's ``othello`` 2.6.0 (tests/envs/board/test_othello.py contains games that it played). There a player of
a game is black or white at random; here player 0 is black, which moves first.

A disc goes to a free cell from which a line of the opponent's discs, straight or diagonal, leads to one of the
player's. All such lines are turned. A player who cannot place a disc passes, by action 64.

Observation   int8[8, 8]   1 for a disc of the player to move, -1 for one of its opponent, 0 for a free cell
Action        int32        0 to 63 places a disc, row by row; 64 passes
Reward        float32[2]   at the end of a game 1 for the player with more discs and -1 for the other, 0 for both if
                           there are as many; 0 otherwise; an illegal move loses
Starts        with two discs of each player in the middle, black to move
Terminates    on a full board, when a player has no disc, when both players pass in turn, or on an illegal move
Time limit    none; a game has at most 60 discs and fewer than 120 moves
env_info      player: int32, the player to move, 0 for black and 1 for white; action_mask: bool[65], its legal actions,
              all of them when the game is over; invalid_move: bool, whether an illegal move ended the game
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLACK, GREEN, INK, NIGHT, WHITE, Canvas, mix
from jaxenv.core import Transition, in_one_kernel
from jaxenv.envs.board._board import BoardGame, Cells, two_rewards
from jaxenv.tree import Tree

_SIZE = 8
_PASS = _SIZE * _SIZE
_NUMBER = np.arange(_PASS)
_BOARD, _ACTIONS = Cells.of(_NUMBER, 2), Cells.of(range(_PASS + 1), 3)
_INNER = Cells.of(_NUMBER[(_NUMBER % _SIZE > 0) & (_NUMBER % _SIZE < _SIZE - 1)], 2)  # all but the outer columns


@tree.struct
class State:
    """Discs of the player to move and of its opponent."""

    own: Cells
    other: Cells
    moves: Cells  # legal actions of the player to move, three words; all actions when the game is over
    player: jax.Array  # int32[B], the player to move
    passed: jax.Array  # bool[B], whether the last move was to pass


class Othello(BoardGame):
    """Othello for two players; the module docstring is the specification."""

    action_names = (*(f"row {cell // _SIZE + 1}, column {cell % _SIZE + 1}" for cell in range(_PASS)), "pass")

    def initial(self, stream: random.Stream) -> State:
        lanes = stream.shape
        black, white, moves = Cells.of([28, 35], 2), Cells.of([27, 36], 2), Cells.of([19, 26, 37, 44], 3)
        own, other, moves = black.full(lanes), white.full(lanes), moves.full(lanes)
        return State(own, other, moves, jnp.zeros(lanes, jnp.int32), jnp.zeros(lanes, bool))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        boards = state.own, state.other, state.moves
        own, other, moves, result, legal, over = in_one_kernel(_move, *boards, action, state.passed)
        after = State(other, own, moves, 1 - state.player, action == _PASS)
        return Transition(after, two_rewards(result, state.player), over, {"invalid_move": ~legal})

    def observe(self, state: State) -> jax.Array:
        own, other = (discs.at(_NUMBER).astype(jnp.int8) for discs in (state.own, state.other))
        return (own - other).reshape(-1, _SIZE, _SIZE)

    def state_info(self, state: State) -> dict[str, Tree]:
        return {"player": state.player, "action_mask": state.moves.at(np.arange(_PASS + 1))}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((_SIZE, _SIZE), np.int8, -1, 1, "observation")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        black = state.own.where(state.player == 0) | state.other.where(state.player == 1)
        taken, may_pass = state.own | state.other, state.moves.at(np.array([_PASS]))[:, 0]
        moves = Cells(state.moves.words[:2]).where(~may_pass)
        is_taken, is_black, is_move = (cells.at(_NUMBER).astype(jnp.int32) for cells in (taken, black, moves))
        kinds = is_taken * (2 - is_black) + 3 * is_move
        return canvas.fill(NIGHT).tiles(kinds.reshape(-1, _SIZE, _SIZE), _PAINTERS)


def _move(
    own: Cells, other: Cells, moves: Cells, action: jax.Array, passed: jax.Array
) -> tuple[Cells, Cells, Cells, jax.Array, jax.Array, jax.Array]:
    """Returns the discs of the player and of its opponent after the move, the opponent's legal actions, the result of
    the player, and whether the move was legal and ended the game.
    """
    chosen = Cells.cell(action, 3) & moves
    disc = Cells(chosen.words[:2])
    # The other discs between the new one and the player's; none without a new disc.
    turned = Cells.union(*(seen.where((seen.moved(step) & own).any()) for seen, step in _lines(disc, other)))
    own, other = own | disc | turned, other - turned
    legal = chosen.any()
    over = ~(_BOARD - own - other).any() | ~other.any() | (passed & (action == _PASS)) | ~legal
    result = jnp.where(legal & over, jnp.sign(own.count() - other.count()), -(~legal).astype(jnp.int32))
    discs = Cells.union(*(seen.moved(step) for seen, step in _lines(other, own))) - own - other
    moves = Cells((*discs.words, jnp.where(discs.any(), np.uint32(0), np.uint32(1))))
    return own, other, moves | _ACTIONS.where(over), result, legal, over


def _lines(start: Cells, discs: Cells) -> Iterator[tuple[Cells, int]]:
    """Yields for each direction which ``discs`` unbroken lines reach from ``start``, and the step in that direction."""
    for distance in (1, _SIZE, _SIZE - 1, _SIZE + 1):
        inner = discs if distance == _SIZE else discs & _INNER  # no line goes on behind an outer column
        for step in (distance, -distance):
            seen = inner & start.moved(step)
            seen = seen | (inner & seen.moved(step))
            pairs = inner & inner.moved(step)
            for _ in range(2):  # a line has at most six discs
                seen = seen | (pairs & seen.moved(2 * step))
            yield seen, step


# --- the picture -----------------------------------------------------------------------------------------------------

_CLOTH = mix(GREEN, BLACK, 0.3)


def _cell(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 0.96, 0.96, _CLOTH)


_PAINTERS = (  # a free cell, a black disc, a white one, and where the player may place one
    _cell,
    lambda canvas: _cell(canvas).disc(0.5, 0.5, 0.38, INK),
    lambda canvas: _cell(canvas).disc(0.5, 0.5, 0.38, WHITE),
    lambda canvas: _cell(canvas).disc(0.5, 0.5, 0.1, mix(_CLOTH, WHITE, 0.5)),
)
