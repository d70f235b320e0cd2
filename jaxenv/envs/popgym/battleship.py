"""Sink ships on a hidden board; the observation only says whether the last shot hit.

Reference: POPGym 1.0.7 ``Battleship`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   int32        1 if the last shot hit, else 0; with observability="full" (int32[size, size],
                           int32[size, size], int32), 1 for a cell with a ship, 1 for a cell that was shot at, the hit
Action        int32[2]     row and column of the shot; a policy needs its last action too
Reward        1 / (cells with ships) for a hit, -1 / (cells without) for a miss; a second shot at a cell misses
Starts        with ships placed one after another, each uniform over the free places, rows and columns alike
Terminates    with the last hit
Time limit    size * size
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GREY, NIGHT, ORANGE, SKY, WHITE, Canvas, mix
from jaxenv.core import Transition
from jaxenv.envs.popgym._partly_observed import PartlyObserved
from jaxenv.tree import Tree


@tree.struct
class State:
    """The board and the shots."""

    ships: jax.Array  # bool[B, size, size]
    shots: jax.Array  # bool[B, size, size]
    hit: jax.Array  # bool[B], whether the last shot hit


class Battleship(PartlyObserved):
    """Battleship; the module docstring is the specification."""

    reset_strategy = {"cpu": "cond", "default": "select"}
    size: int = tree.static(default=10, low=2, doc="rows and columns of the board")
    ship_sizes: tuple[int, ...] = tree.static(default=(2, 3, 3, 4), doc="cells of each ship, in the order of placement")

    def check(self) -> None:
        super().check()
        if not all(1 <= ship <= self.size for ship in self.ship_sizes) or not self.ship_sizes:
            raise ValueError(f"{self}: ship_sizes must be lengths from 1 to size {self.size}, got {self.ship_sizes}")
        if sum(self.ship_sizes) >= self.size**2:
            rule = f"must leave a cell of the {self.size**2} free"
            raise ValueError(f"{self}: ship_sizes {rule}, got {self.ship_sizes}")
        # A ship touches one row and a column per cell, or the reverse.
        if sum(cells + 1 for cells in self.ship_sizes[:-1]) >= 2 * self.size:
            rule = "must leave a row or a column free for the last ship"
            raise ValueError(f"{self}: ship_sizes {rule}, got {self.ship_sizes} for size {self.size}")

    @property
    def time_limit(self) -> int:
        return self.size**2

    def initial(self, stream: random.Stream) -> State:
        lengths, longest = jnp.asarray(self.ship_sizes, jnp.int32), max(self.ship_sizes)

        def place(number: jax.Array, ships: jax.Array) -> jax.Array:
            return ships | _placed(random.fold_in(stream, number), ships, lengths[number], longest)

        # Under shard_map the carry must vary over the mesh from the start.
        none = tree.vary_like(stream.k0, jnp.zeros((*stream.shape, self.size, self.size), bool))
        ships = jax.lax.fori_loop(0, len(self.ship_sizes), place, none)
        return State(ships, jnp.zeros_like(ships), jnp.zeros(stream.shape, bool))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        cells = np.arange(self.size, dtype=np.int32)
        target = (action[:, :1] == cells[None])[:, :, None] & (action[:, 1:] == cells[None])[:, None, :]
        hit = jnp.any(target & state.ships & ~state.shots, axis=(1, 2))
        shots = state.shots | target
        with_ships = sum(self.ship_sizes)
        reward = jnp.where(hit, np.float32(1 / with_ships), np.float32(-1 / (self.size**2 - with_ships)))
        sunk = ~jnp.any(state.ships & ~shots, axis=(1, 2))
        return Transition(State(state.ships, shots, hit), reward, sunk)

    def observe(self, state: State) -> Tree:
        hit = state.hit.astype(jnp.int32)
        return (state.ships.astype(jnp.int32), state.shots.astype(jnp.int32), hit) if self.is_full else hit

    def observation_spec(self) -> Tree:
        hit = specs.discrete(2, name="hit")
        board = [specs.Bounded((self.size, self.size), np.int32, 0, 1, name) for name in ("ships", "shots")]
        return (*board, hit) if self.is_full else hit

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((2,), np.int32, 0, self.size - 1, "cell")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        kinds = state.ships.astype(jnp.int32) + 2 * state.shots.astype(jnp.int32)
        return canvas.fill(NIGHT).tiles(kinds, [_sea, _ship, _miss, _hit])


def _placed(stream: random.Stream, ships: jax.Array, cells: jax.Array, longest: int) -> jax.Array:
    """Draws a place for a ship of some cells, at most ``longest``, that no other ship covers: ``[B, size, size]``."""
    size = ships.shape[-1]
    free = []  # whether a ship fits that goes down, or to the right, from each cell
    for axis in (1, 2):
        padding = [(0, longest - 1 if i == axis else 0) for i in range(3)]
        taken = jnp.pad(ships, padding, constant_values=True)
        ahead = [(i < cells) & jax.lax.slice_in_dim(taken, i, i + size, axis=axis) for i in range(longest)]
        free.append(~jnp.any(jnp.stack(ahead), axis=0).reshape(-1, size**2))
    place = random.categorical(stream, weights=jnp.concatenate(free, axis=1))[:, None, None]
    turned, start = place // size**2, place % size**2
    row, column = np.indices((size, size), dtype=np.int32)[:, None]
    down, right = row - start // size, column - start % size
    along, aside = jnp.where(turned == 1, right, down), jnp.where(turned == 1, down, right)
    return (aside == 0) & (along >= 0) & (along < cells)


# --- the picture -----------------------------------------------------------------------------------------------------


def _sea(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 0.94, 0.94, mix(NIGHT, BLUE, 0.6), corner=0.1)


def _ship(canvas: Canvas) -> Canvas:
    return _sea(canvas).box(0.5, 0.5, 0.8, 0.8, GREY, corner=0.2)


def _miss(canvas: Canvas) -> Canvas:
    return _sea(canvas).disc(0.5, 0.5, 0.16, SKY)


def _hit(canvas: Canvas) -> Canvas:
    canvas = _ship(canvas).disc(0.5, 0.5, 0.3, ORANGE)
    return canvas.line(0.35, 0.35, 0.65, 0.65, 0.1, WHITE).line(0.35, 0.65, 0.65, 0.35, 0.1, WHITE)
