"""Hex on 11 by 11 cells: two players place stones in turn until one of them connects two opposite edges.

Reference: Pgx's ``hex`` 2.6.0 (tests/envs/board/test_hex.py contains games that it played). There a player of a game
is black or white at random; here player 0 is black, which moves first.

Cells are hexagons. Cell ``(row, column)`` touches the cells to its left and right, above and below, and
``(row - 1, column + 1)`` and ``(row + 1, column - 1)``. Black connects the first and the last row, white the first and
the last column. Instead of its first stone white may swap: black's stone becomes a white one and moves from
``(row, column)`` to ``(column, row)``, where white has what black had.

Observation   bool[11, 11, 4]  own stones; stones of the opponent; whether the player to move is white; whether it may
              swap; the last two planes are equal in all cells
Action        int32            0 to 120 places a stone, row by row; 121 swaps
Reward        float32[2]       1 for the player who connects its edges, -1 for the other, else 0; an illegal move loses
Starts        with an empty board, black to move
Terminates    when the edges of a player are connected or on an illegal move; a full board always connects two edges
Time limit    none; a game has at most 122 moves
env_info      player: int32, the player to move, 0 for black and 1 for white; action_mask: bool[122], its legal
              actions, all of them when the game is over; invalid_move: bool, whether an illegal move ended the game
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLACK, GREY, SAND, WHITE, Canvas
from jaxenv.core import Transition, in_one_kernel
from jaxenv.envs.board._board import BoardGame, Cells, connected, two_rewards
from jaxenv.tree import Tree

SIZE = 11
_SWAP = SIZE * SIZE
# In sets of cells a free column follows the last one, so that no step leads from one row into the next.
_WIDTH = SIZE + 1
_WORDS = 5
_NUMBER = np.arange(SIZE)[:, None] * _WIDTH + np.arange(SIZE)[None]  # [row, column]
_BOARD = Cells.of(_NUMBER, _WORDS)
_ROW_EDGES = Cells.of(_NUMBER[0], _WORDS), Cells.of(_NUMBER[-1], _WORDS)
_COLUMN_EDGES = Cells.of(_NUMBER[:, 0], _WORDS), Cells.of(_NUMBER[:, -1], _WORDS)
_STEPS = (1, _WIDTH, _WIDTH - 1, -1, -_WIDTH, 1 - _WIDTH)


@tree.struct
class State:
    """Stones of the player to move and of its opponent."""

    own: Cells
    other: Cells
    last: jax.Array  # int32[B], the cell of the last stone, -1 if there is none
    moves: jax.Array  # int32[B], black's turn if even
    over: jax.Array  # bool[B]


class Hex(BoardGame):
    """Hex for two players; the module docstring is the specification."""

    opt_outs = {"sharding_invariant": "groups of stones grow in a loop that ends with the last lane, use shard_map"}
    action_names = (*(f"{'abcdefghijk'[cell % SIZE]}{cell // SIZE + 1}" for cell in range(SIZE * SIZE)), "swap")

    def initial(self, stream: random.Stream) -> State:
        empty, zero = Cells.of([], _WORDS).full(stream.shape), jnp.zeros(stream.shape, jnp.int32)
        return State(empty, empty, zero - 1, zero, jnp.zeros(stream.shape, bool))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        own, other, stone, last = in_one_kernel(_placed, state, action)
        group = connected(stone, own, _STEPS)
        player = state.moves % 2
        result, illegal = in_one_kernel(_judged, group, player)
        after = State(other, own, last, state.moves + 1, over=result != 0)
        return Transition(after, two_rewards(result, player), after.over, {"invalid_move": illegal})

    def observe(self, state: State) -> jax.Array:
        cells = _NUMBER.reshape(-1)
        own, other = state.own.at(cells), state.other.at(cells)
        whole = (state.moves % 2 == 1)[:, None], (state.moves == 1)[:, None]
        planes = own, other, *(jnp.broadcast_to(plane, own.shape) for plane in whole)
        return jnp.stack(planes, axis=-1).reshape(-1, SIZE, SIZE, 4)

    def state_info(self, state: State) -> dict[str, Tree]:
        free = ~(state.own | state.other).at(_NUMBER.reshape(-1))
        mask = jnp.concatenate([free, (state.moves == 1)[:, None]], axis=-1)
        return {"player": state.moves % 2, "action_mask": mask | state.over[:, None]}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((SIZE, SIZE, 4), np.bool_, False, True, "observation")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = canvas.fill(GREY).view((-1.6, 16.6), (-10.2, 1.6))
        cell, x, y = _nearest(canvas.x[0], canvas.y[0])
        # All cells are painted at once: each pixel has the coordinates that it has within its cell.
        local = tree.rebuild(canvas, x=x[None], y=y[None])
        corners = [(0.53 * np.sin(angle), 0.53 * np.cos(angle)) for angle in np.arange(6) * np.pi / 3]
        free = local.polygon(corners, SAND)
        kinds = [free, free.disc(0, 0, 0.37, BLACK), free.disc(0, 0, 0.37, WHITE)]
        kinds += [local.polygon(corners, BLACK), local.polygon(corners, WHITE), local]
        own, other = (stones.at(_NUMBER.reshape(-1)) for stones in (state.own, state.other))
        is_white = (state.moves % 2 == 1)[:, None]
        black, white = jnp.where(is_white, other, own), jnp.where(is_white, own, other)
        stones = (black.astype(jnp.int32) + 2 * white.astype(jnp.int32)).reshape(-1, SIZE, SIZE)
        board = jnp.pad(stones, ((0, 0), (1, 1), (1, 1))) + _EDGES[None]
        shown = board.reshape(-1, (SIZE + 2) ** 2)[:, cell]
        planes = (sum(jnp.where(shown == i, kind.planes[c], 0) for i, kind in enumerate(kinds)) for c in range(3))
        return tree.rebuild(canvas, ground=tuple(planes))


def _placed(state: State, action: jax.Array) -> tuple[Cells, Cells, Cells, jax.Array]:
    """Returns the stones of the player and of its opponent after the move, the stone if it is legal, and its cell."""
    swaps = (action == _SWAP) & (state.moves == 1)
    cell = jnp.where(swaps, state.last % SIZE * SIZE + state.last // SIZE, action)
    other = state.other.where(~swaps)
    stone = (Cells.cell(cell + cell // SIZE, _WORDS) & _BOARD) - state.own - other
    return state.own | stone, other, stone, jnp.where(stone.any(), cell, state.last)


def _judged(group: Cells, player: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the player's result, 1 for a win, and whether the move was illegal, given the group of the new stone."""
    rows, columns = (((group & first).any() & (group & last).any()) for first, last in (_ROW_EDGES, _COLUMN_EDGES))
    wins, illegal = jnp.where(player == 0, rows, columns), ~group.any()
    return wins.astype(jnp.int32) - illegal.astype(jnp.int32), illegal


# --- the picture -----------------------------------------------------------------------------------------------------

# Around the board, black's edges are 3, white's 4 and the corners 5.
_EDGES = np.zeros((SIZE + 2, SIZE + 2), np.int32)
_EDGES[[0, -1]], _EDGES[:, [0, -1]] = 3, 4
_EDGES[[0, 0, -1, -1], [0, -1, 0, -1]] = 5


def _nearest(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the cell of each pixel, numbered with the edges, and the pixel's coordinates from the middle of its cell.

    The middle of cell ``(row, column)`` is at x = column + row / 2 and y = -row * sqrt(3) / 2.
    """
    pitch = np.float32(np.sqrt(0.75))

    def in_row(row: np.ndarray) -> tuple[np.ndarray, ...]:
        column = np.round(x - row / 2)
        return row, column, x - column - row / 2, y + row * pitch

    above, below = in_row(np.floor(-y / pitch)), in_row(np.floor(-y / pitch) + 1)
    is_above = np.hypot(above[2], above[3]) < np.hypot(below[2], below[3])
    row, column, right, up = (np.where(is_above, a, b) for a, b in zip(above, below, strict=True))
    outside = (np.minimum(row, column) < -1) | (np.maximum(row, column) > SIZE)
    return np.where(outside, 0, (row + 1) * (SIZE + 2) + column + 1).astype(np.int32), right, up
