"""Open all cells without a mine; the observation counts the mines around the last cell only.

Reference: POPGym 1.0.7 ``MineSweeper`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   int32        the mines in the last cell and its 8 neighbours, 0 at the start; with observability="full"
                           int32[size * size], row by row 0 for a closed cell, 1 for a mine, 2 for an opened cell
Action        int32[2]     row and column of the cell to open; a policy needs its last action too
Reward        1 / n for a closed cell, -0.5 / (n - 2) for an opened one, -0.5 - 1 / n for a mine, with
              n = size * size - mines
Starts        with mines in distinct uniform cells
Terminates    on a mine, or when all other cells are open
Time limit    n
"""

from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import INK, NIGHT, RED, SILVER, TEAL, WHITE, Canvas, mix
from jaxenv.core import Range, Transition
from jaxenv.envs.popgym import _deck
from jaxenv.envs.popgym._partly_observed import PartlyObserved


@tree.struct
class State:
    """The board and the last observation."""

    mined: jax.Array  # bool[B, size, size]
    opened: jax.Array  # bool[B, size, size], cells without a mine
    count: jax.Array  # int32[B], mines in and around the last cell


class MineSweeper(PartlyObserved):
    """Minesweeper; the module docstring is the specification."""

    size: int = tree.static(default=4, low=2, doc="rows and columns of the board")
    mines: int = tree.static(default=2, low=1, doc="number of mines; at least 3 cells have none")

    def check(self) -> None:
        super().check()
        Range(high=self.size**2 - 3).check(f"{self}", "mines", self.mines)

    @property
    def time_limit(self) -> int:
        return self.size**2 - self.mines

    def initial(self, stream: random.Stream) -> State:
        numbers = np.arange(self.mines, dtype=np.int32)[:, None]
        # A stream for each mine. A draw counts the free cells, so it does not need the board.
        each = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.mines, *x.shape)), stream)
        each = random.fold_in(each, jnp.broadcast_to(numbers, each.shape))
        places = jnp.floor(random.uniform(each) * (self.size**2 - numbers).astype(np.float32)).astype(jnp.int32)
        mines = _mines(*places)
        cells = np.arange(self.size**2, dtype=np.int32)[None]
        mined = reduce(jnp.logical_or, (mine[:, None] == cells for mine in mines))
        mined = mined.reshape(-1, self.size, self.size)
        return State(mined, jnp.zeros_like(mined), jnp.zeros(stream.shape, jnp.int32))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        cells = np.arange(self.size, dtype=np.int32)[None]
        down, across = jnp.abs(cells - action[:, :1])[:, :, None], jnp.abs(cells - action[:, 1:])[:, None, :]
        target = (down == 0) & (across == 0)
        near = (down <= 1) & (across <= 1)
        index = action[:, 0] * np.int32(self.size) + action[:, 1]
        exploded, again = (_deck.chosen(x.reshape(-1, self.size**2), index) for x in (state.mined, state.opened))
        closed = self.size**2 - self.mines
        reward = jnp.where(again, np.float32(-0.5 / (closed - 2)), np.float32(1 / closed))
        reward = jnp.where(exploded, np.float32(-0.5 - 1 / closed), reward)
        opened = state.opened | (target & ~state.mined)
        count = jnp.sum(near & state.mined, axis=(1, 2), dtype=jnp.int32)
        cleared = jnp.all(opened | state.mined, axis=(1, 2))
        return Transition(State(state.mined, opened, count), reward, exploded | cleared)

    def observe(self, state: State) -> jax.Array:
        return _kinds(state).reshape(-1, self.size**2) if self.is_full else state.count

    def observation_spec(self) -> specs.Bounded:
        if self.is_full:
            return specs.Bounded((self.size**2,), np.int32, 0, 2, "cells")
        return specs.discrete(min(self.mines, 9) + 1, name="mines")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((2,), np.int32, 0, self.size - 1, "cell")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints closed cells, mines, and the count in every opened cell."""
        padded = jnp.pad(state.mined.astype(jnp.int32), ((0, 0), (1, 1), (1, 1)))
        shifts = [(i, j) for i in range(3) for j in range(3)]
        counts = sum(padded[:, i : i + self.size, j : j + self.size] for i, j in shifts)
        kinds = _kinds(state)
        opened = [partial(_open, count=count) for count in range(9)]
        return canvas.fill(NIGHT).tiles(jnp.where(kinds == 2, 2 + counts, kinds), [_closed, _mine, *opened])


def _mines(*places: jax.Array) -> tuple[jax.Array, ...]:
    """Returns the cells of mines that were laid one after another, each in one of the cells left, counted from 0."""
    mines: list[jax.Array] = []  # in increasing order
    for cell in places:
        for mine in mines:
            cell = cell + (cell >= mine).astype(jnp.int32)
        for number, mine in enumerate(mines):
            mines[number], cell = jnp.minimum(mine, cell), jnp.maximum(mine, cell)
        mines.append(cell)
    return tuple(mines)


def _kinds(state: State) -> jax.Array:
    """Returns 0 for a closed cell, 1 for a mine and 2 for an opened cell: int32 ``[B, size, size]``."""
    return state.mined.astype(jnp.int32) + 2 * state.opened.astype(jnp.int32)


# --- the picture -----------------------------------------------------------------------------------------------------


def _closed(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 0.92, 0.92, mix(NIGHT, TEAL, 0.6), corner=0.1)


def _mine(canvas: Canvas) -> Canvas:
    return _closed(canvas).disc(0.5, 0.5, 0.28, INK).disc(0.5, 0.5, 0.16, RED)


def _open(canvas: Canvas, count: int) -> Canvas:
    canvas = canvas.box(0.5, 0.5, 0.92, 0.92, mix(SILVER, WHITE, 0.5), corner=0.1)
    return canvas.text(str(count), 0.5, 0.27, 0.46, INK, align=0.5) if count else canvas
