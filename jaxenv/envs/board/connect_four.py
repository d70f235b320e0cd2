"""Two players drop stones into the columns of an upright board; four in a line win.

Reference: Pgx's ``connect_four`` 2.6.0 (tests/envs/board/test_connect_four.py contains games that it played). There a
player of a game moves first or second at random; here player 0 moves first.

Observation   int8[6, 7]   1 for a stone of the player to move, -1 for one of its opponent, 0 for none; the top first
Action        int32        the column, 0 to 6, in which a stone falls onto the others
Reward        float32[2]   1 for the player who gets four stones in a row, a column or a diagonal, and -1 for the other,
                           0 otherwise; an illegal move, into a full column, loses
Starts        with an empty board
Terminates    on four in a line, a full board or an illegal move
Time limit    none; a game has at most 42 moves
env_info      player: int32, the player to move; action_mask: bool[7], its legal actions, all of them when the game is
              over; invalid_move: bool, whether an illegal move ended the game
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, NIGHT, RED, WHITE, Canvas, Colour, mix
from jaxenv.core import Transition, in_one_kernel
from jaxenv.envs.board._board import BoardGame, Cells, two_rewards
from jaxenv.tree import Tree

_ROWS, _COLUMNS = 6, 7
# In sets of cells a column has one more, which stays free, so that no line leads from one column into the next.
_HEIGHT = _ROWS + 1
_NUMBER = np.arange(_COLUMNS)[None] * _HEIGHT + np.arange(_ROWS)[::-1, None]  # [row, column]
_BOARD, _BOTTOM, _EMPTY = Cells.of(_NUMBER, 2), Cells.of(_NUMBER[-1], 2), Cells.of([], 2)
_STEPS = (1, _HEIGHT - 1, _HEIGHT, _HEIGHT + 1)  # to the next cell of a line


@tree.struct
class State:
    """Stones of the player to move and of its opponent."""

    own: Cells
    other: Cells
    player: jax.Array  # int32[B], the player to move
    over: jax.Array  # bool[B], whether the game is over


class ConnectFour(BoardGame):
    """Connect Four for two players; the module docstring is the specification."""

    agent_names = ("first", "second")
    action_names = tuple(f"column {column + 1}" for column in range(_COLUMNS))

    def initial(self, stream: random.Stream) -> State:
        empty = _EMPTY.full(stream.shape)
        return State(empty, empty, jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, bool))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        own, result, legal, over = in_one_kernel(_move, state.own, state.other, action)
        after = State(state.other, own, 1 - state.player, over)
        return Transition(after, two_rewards(result, state.player), over, {"invalid_move": ~legal})

    def observe(self, state: State) -> jax.Array:
        own, other = (stones.at(_NUMBER.reshape(-1)).astype(jnp.int8) for stones in (state.own, state.other))
        return (own - other).reshape(-1, _ROWS, _COLUMNS)

    def state_info(self, state: State) -> dict[str, Tree]:
        is_full = (state.own | state.other).at(_NUMBER[0])
        return {"player": state.player, "action_mask": ~is_full | state.over[:, None]}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((_ROWS, _COLUMNS), np.int8, -1, 1, "observation")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        first, line = state.own.where(state.player == 0) | state.other.where(state.player == 1), _EMPTY
        for stones in (state.own, state.other):
            for step, starts in zip(_STEPS, _fours(stones), strict=True):
                for distance in (step, 2 * step, 3 * step):
                    line = line | starts | starts.moved(distance)
        sets = state.own | state.other, first, line
        taken, is_first, in_line = (cells.at(_NUMBER.reshape(-1)).astype(jnp.int32) for cells in sets)
        kinds = taken * (2 - is_first) + 2 * in_line
        return canvas.fill(NIGHT).tiles(kinds.reshape(-1, _ROWS, _COLUMNS), _PAINTERS)


def _move(own: Cells, other: Cells, column: jax.Array) -> tuple[Cells, jax.Array, jax.Array, jax.Array]:
    """Returns the player's stones after its move, its result, and whether the move was legal and ended the game."""
    taken = own | other
    onto = (taken.moved(1) | _BOTTOM) - taken
    offset, cells = column.astype(jnp.uint32) * np.uint32(_HEIGHT), np.uint32(2**_ROWS - 1)
    # A shift by 32 or more bits gives 0, and a negative one wraps to a large shift.
    chosen = Cells((cells << offset, (cells >> (np.uint32(32) - offset)) | (cells << (offset - np.uint32(32)))))
    stone = onto & chosen
    own = own | stone
    legal, wins = stone.any(), Cells.union(*_fours(own)).any()
    over = wins | ~legal | ~(_BOARD - own - other).any()
    return own, wins.astype(jnp.int32) - (~legal).astype(jnp.int32), legal, over


def _fours(stones: Cells) -> list[Cells]:
    """Returns the first cells of four in a line, for each of the `_STEPS`."""
    pairs = [stones & stones.moved(-step) for step in _STEPS]
    return [pair & pair.moved(-2 * step) for pair, step in zip(pairs, _STEPS, strict=True)]


# --- the picture -----------------------------------------------------------------------------------------------------

_FRAME = mix(BLUE, NIGHT, 0.25)


def _cell(canvas: Canvas, stone: Colour = NIGHT, radius: float = 0.4, in_line: bool = False) -> Canvas:
    canvas = canvas.box(0.5, 0.5, 1.0, 1.0, _FRAME).disc(0.5, 0.5, radius, stone)
    return canvas.disc(0.5, 0.5, 0.18, WHITE) if in_line else canvas


_STONES = [partial(_cell, stone=colour, in_line=in_line) for in_line in (False, True) for colour in (RED, GOLD)]
_PAINTERS = [partial(_cell, radius=0.38), *_STONES]
